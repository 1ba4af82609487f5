"""What gpu_run and sample share: processes that take turns, and numbers in tables."""
import json
import queue
import shutil
import statistics
import subprocess
import threading

PATIENCE = 150  # seconds for one answer: a peer may compile
# What an H200 reaches at best (copies of 1 GiB; its data sheet's f32; large bf16 products on random data): floors are
# stated against these.
BYTES_PER_MS, FLOPS_PER_MS = 4.2e9, {"f32": 60e9, "tf32": 400e9, "bf16": 790e9}


class Worker:
    """A process that answers jobs, started when first asked."""

    def __init__(self, name, command, env, log, patience=PATIENCE):
        self.name, self.command, self.env, self.log, self.patience = name, command, env, log, patience
        self.process, self.version, self.missing = None, None, None

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.listen, args=(self.process, self.lines), daemon=True).start()
        first = self.next()
        self.version = first.get("version", self.version)
        self.missing = first.get("missing") or first.get("error")

    @staticmethod
    def listen(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def next(self):
        try:
            line = self.lines.get(timeout=self.patience)
            if line is None:
                return {"error": f"{self.name} ended with {self.process.wait()}"}
            return json.loads(line)
        except queue.Empty:
            return {"error": f"no answer within {self.patience:g} s"}
        except ValueError:
            return {"error": f"not an answer: {line.strip()[:100]}"}

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def ask(self, job):
        if self.missing:
            return {"missing": self.missing}
        if not self.process:
            self.start()
            if self.missing:
                self.stop()
                return {"missing": self.missing}
        try:
            self.process.stdin.write(job + "\n")
            self.process.stdin.flush()
            answer = self.next()
        except OSError as e:
            answer = {"error": str(e)}
        if "error" in answer:  # its device may be lost with it
            self.stop()
        return answer


def median(answer):
    return statistics.median(answer["ms"]) if answer and answer.get("ms") else None


def spread(answer):
    """Half the distance of the quartiles, in percent of the median."""
    if not answer or len(answer.get("ms", [])) < 4:
        return None
    low, middle, high = statistics.quantiles(answer["ms"], n=4)
    return 50 * (high - low) / middle if middle else 0


def number(x):
    return "" if x is None else f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def percent(x):
    return "" if x is None else f"{x:.0f}%"


def table(rows, left):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip()
            for r in rows]


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem",
             "--format=csv,noheader"]
    if not shutil.which(query[0]):
        return "no GPU"
    return subprocess.run(query, capture_output=True, text=True).stdout.strip().replace("\n", "; ")
