"""The tables and the picture of what bench/sample measured."""
import datetime
import math
import statistics

from draws import APART, CLASSES, OTHERS, in_words
from workers import BYTES_PER_MS, FLOPS_PER_MS, machine, number, table

WORST = 10
COMPILE_MEDIAN_MS, COMPILE_WORST_MS = 400, 5000


def best_peer(result):
    """Name and milliseconds of the fastest peer."""
    times = {name: r["ms"] for name, r in result["peers"].items() if "ms" in r}
    return min(times.items(), key=lambda t: t[1]) if times else (None, None)


def ratio(result):
    """The best peer's time over Tenet's."""
    _, ms = best_peer(result)
    return ms / result["tenet"]["ms"] if ms and "ms" in result["tenet"] else None


def floor(result, device):
    """The least that an H200 needs."""
    draw = result["draw"]
    rate = FLOPS_PER_MS.get("tf32" if draw["tf32"] else "bf16" if draw["dtype"] == "f16" else draw["dtype"])
    if not device.startswith("cuda"):
        return None
    return max(draw["bytes"] / BYTES_PER_MS, draw["flops"] / rate if rate else 0)


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def tenth(values):
    """The value below which a tenth lies."""
    return sorted(values)[int(len(values) / 10)] if values else None


def by_class(results):
    found = {}
    for r in results:
        found.setdefault(r["draw"]["class"], []).append(r)
    return found


def group_line(group, results):
    """Classes weigh equally in the mean."""
    ratios = {c: [x for x in map(ratio, rs) if x] for c, rs in by_class(results).items()
              if CLASSES[c].group == group}
    every = [x for xs in ratios.values() for x in xs]
    if not every:
        return f"{group}: nothing measured"
    mean = geometric([geometric(xs) for xs in ratios.values() if xs])
    return (f"{group}: geometric mean {number(mean)}, 10th percentile {number(tenth(every))}, smallest "
            f"{number(min(every))}, of {len(every)} draws")


def class_table(results):
    rows = [["class", "draws", "mean", "median", "10th", "min", "max", "failed", "WRONG"]]
    for group in (OTHERS, APART):
        for name, rs in sorted(by_class(results).items()):
            if CLASSES[name].group != group:
                continue
            xs = [x for x in map(ratio, rs) if x]
            numbers = [geometric(xs), statistics.median(xs), tenth(xs), min(xs), max(xs)] if xs else [None] * 5
            rows.append([name, str(len(rs)), *map(number, numbers), str(sum("ms" not in r["tenet"] for r in rs) or ""),
                         str(sum(r["verdict"].startswith("WRONG") for r in rs) or "")])
    return table(rows, {0})


def worst_table(results, device):
    measured = sorted((r for r in results if ratio(r)), key=ratio)[:WORST]
    rows = [["draw", "ratio", "tenet", "kernels", "best peer", "ms", "floor", "what"]]
    for r in measured:
        name, ms = best_peer(r)
        rows.append([str(r["draw"]["draw"]), number(ratio(r)), number(r["tenet"]["ms"]), str(r["tenet"]["kernels"]),
                     name, number(ms), number(floor(r, device)), in_words(r["draw"])])
    return table(rows, {4, 7})


def compile_line(results):
    times = sorted((r["tenet"]["compile_ms"], r["draw"]["draw"]) for r in results if "compile_ms" in r["tenet"])
    if not times:
        return "compile time: none"
    middle, (worst, which) = statistics.median(t for t, _ in times), times[-1]
    good = middle <= COMPILE_MEDIAN_MS and worst <= COMPILE_WORST_MS
    return (f"compile time (record, compile, first run; the device's start not counted): median {middle:.0f} ms, "
            f"worst {worst:.0f} ms (draw {which}); wanted: at most {COMPILE_MEDIAN_MS} and {COMPILE_WORST_MS} ms: "
            f"{'pass' if good else 'MISS'}")


def problems(results):
    lines = []
    for title, said in (("disagreements", [(r, r["verdict"]) for r in results if r["verdict"]]),
                        ("Tenet failed", [(r, r["tenet"]["error"]) for r in results if "ms" not in r["tenet"]]),
                        ("peers failed", [(r, f"{n}: {p['error']}") for r in results for n, p in r["peers"].items()
                                          if "ms" not in p])):
        if said:
            lines += ["", f"{title}:"] + [f"  {r['draw']['draw']} {r['draw']['class']}: {text}" for r, text in said]
    return lines


def all_table(results):
    rows = [["draw", "ratio", "tenet", "best peer", "ms", "compile", "what"]]
    for r in results:
        name, ms = best_peer(r)
        rows.append([str(r["draw"]["draw"]), number(ratio(r)), number(r["tenet"].get("ms")) or "failed", name or "",
                     number(ms), number(r["tenet"].get("compile_ms")), in_words(r["draw"])])
    return table(rows, {3, 6})


def text(results, versions, missing, options):
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [f"{now:%Y-%m-%d %H:%M} UTC  {machine()}  Tenet on {options.device}"
             + (f", {options.threads} threads" if options.threads else "") + f"  seed {options.seed}",
             "versions: " + ("; ".join(versions.values()) or "none"),
             *[f"missing: {n}: {why}" for n, why in missing.items()],
             "ratio: the best peer's time over Tenet's (above 1 Tenet is faster); times in milliseconds, medians; "
             "classes weigh equally in means", ""]
    lines += class_table(results) + [""] + [group_line(g, results) for g in (OTHERS, APART)]
    lines += [compile_line(results), "", "the worst:"] + worst_table(results, options.device)
    lines += problems(results) + ["", "all draws:"] + all_table(results)
    failed = sum("ms" not in r["tenet"] for r in results)
    wrong = sum(r["verdict"].startswith("WRONG") for r in results)
    lines += ["", f"{len(results)} draws: {sum(ratio(r) is not None for r in results)} compared, {failed} failed, "
                  f"{wrong} WRONG"]
    return "\n".join(lines) + "\n"


# ---- the picture ----

WIDTH, LEFT, ROW, TOP, REACH = 900, 130, 22, 60, 6  # REACH: of powers of 2 to both sides


def across(x):
    return LEFT + (WIDTH - LEFT - 20) * (max(-REACH, min(REACH, math.log2(x))) + REACH) / (2 * REACH)


def picture(results, options):
    groups = by_class(results)
    names = sorted(groups, key=lambda n: (CLASSES[n].group != OTHERS, n))
    height = TOP + ROW * len(names) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
             f'font-size="12">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">the best peer\'s time over Tenet\'s, {len(results)} draws on '
             f'{options.device}, seed {options.seed}</text>']
    for power in range(-REACH, REACH + 1):
        x, name = across(2.0**power), str(2**power) if power >= 0 else f"1/{2**-power}"
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{height - 30}" '
                     f'stroke="{"black" if power == 0 else "#ddd"}"/>'
                     f'<text x="{x:.1f}" y="{TOP - 16}" text-anchor="middle">{name}</text>')
    for row, name in enumerate(names):
        y = TOP + ROW * (row + 0.5)
        xs = [x for x in map(ratio, groups[name]) if x]
        colour = "#b3541e" if CLASSES[name].group == APART else "#1e66b3"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{y + (i * 7 % 9 - 4):.1f}" r="2.5" fill="{colour}" '
                  f'fill-opacity="0.5"/>' for i, x in enumerate(xs)]
        if xs:
            x = across(statistics.median(xs))
            parts.append(f'<line x1="{x:.1f}" y1="{y - 9:.1f}" x2="{x:.1f}" y2="{y + 9:.1f}" stroke="black" '
                         f'stroke-width="2"/>')
    parts.append(f'<text x="{LEFT}" y="{height - 10}">a dot is a draw, a bar the median of its class; to the right '
                 f'of 1 Tenet is faster</text></svg>')
    return "\n".join(parts) + "\n"
