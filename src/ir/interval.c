/* Bounds of integer and bool nodes from the bounds of their sources, by the rows of intervals.def.
 *
 * Bounds are those of the 64-bit patterns, read as signed.  For u64 that means: lo >= 0 says that all values are below
 * 2^63, and lo < 0 says nothing; arithmetic on such a source gives the full range. */
#include "ir/eval.h"

__extension__ typedef __int128 wide; /* holds every sum and product of two bounds */

enum { SOURCES = 3 }; /* that rows are about */

typedef struct span {
  wide lo, hi;
} span;

static span full(int dtype) {
  unsigned bits = 8 * (unsigned)tn__size_of(dtype);
  if (dtype == TN_BOOL) return (span){0, 1};
  if (tn__dtypes[dtype].is_signed || bits == 64) return (span){-((wide)1 << (bits - 1)), ((wide)1 << (bits - 1)) - 1};
  return (span){0, ((wide)1 << bits) - 1};
}

/* ---- what the formulas call ---- */

static inline wide plus(wide x, wide y) { return x + y; }
static inline wide minus(wide x, wide y) { return x - y; }
static inline wide times(wide x, wide y) { return x * y; }
static inline wide quotient(wide x, wide y) { return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0)); }
static inline wide least(wide x, wide y) { return x < y ? x : y; }
static inline wide most(wide x, wide y) { return x < y ? y : x; }
static inline wide raised(wide x, wide count) { return x * ((wide)1 << (int)count); }
static inline wide lowered(wide x, wide count) { return x >> (int)count; }
static inline bool below(wide x, wide y) { return x < y; }
static inline bool same(wide x, wide y) { return x == y; }
static inline bool both(bool x, bool y) { return x && y; }
static inline bool either(bool x, bool y) { return x || y; }
static inline wide choose(bool x, wide y, wide z) { return x ? y : z; }

static inline wide mask(wide x) { /* the least 2^k - 1 that is not below x; -1 for x < 0 */
  for (int i = 1; i < 64; i *= 2) x |= x >> i;
  return x;
}

/* ---- the rows, compiled ---- */

typedef struct given {
  span a, b, c, all;
  wide ones, width, last, some;
} given;

#define ROW(name, lower, upper)                                                                                       \
  static span name(const given *g) {                                                                                  \
    const span a = g->a, b = g->b, c = g->c, all = g->all;                                                            \
    const wide ones = g->ones, width = g->width, last = g->last, some = g->some;                                      \
    (void)a, (void)b, (void)c, (void)all, (void)ones, (void)width, (void)last, (void)some;                            \
    return (span){lower, upper};                                                                                      \
  }
#define INTERVAL(op, where, lower, upper) ROW(op##_##where, lower, upper)
#define TENSOR(op, element, lower, upper) ROW(op##_BITS, lower, upper)
#define STEP(op, formula)
#include "ir/intervals.def"

typedef span (*row)(const given *g);
static const row rows[OP_COUNT][TI_COUNT] = {
#define INTERVAL(op, where, lower, upper) [OP_##op][TI_##where] = op##_##where,
#define TENSOR(op, element, lower, upper) [OP_##op][TI_BITS] = op##_BITS,
#define STEP(op, formula)
#include "ir/intervals.def"
};

/* The hull of what the rows give for the parts of the divisor. */
static span by_divisor(const row *r, given *g) {
  const span b = g->b, parts[] = {{b.lo, least(b.hi, -1)}, {most(b.lo, 0), least(b.hi, 0)}, {most(b.lo, 1), b.hi}};
  span s = {1, 0};
  for (int i = 0; i < 3; i++) {
    if (parts[i].lo > parts[i].hi) continue;
    g->b = parts[i];
    span t = r[TI_BELOW + i](g);
    s = s.lo > s.hi ? t : (span){least(s.lo, t.lo), most(s.hi, t.hi)};
  }
  return s;
}

/* Whether the bounds of a source are those of numbers, or at least (bits) of patterns. */
static bool known(int dtype, wide lo, bool bits) {
  return !tn__is_float(dtype) && dtype != TN__VOID && (bits || dtype != TN_U64 || lo >= 0);
}

static bool has_elements(const tn_node *n) {
  for (uint32_t i = 0; tn__ops[n->op].group == G_REDUCE && i < n->nint; i++)
    if (n->src[0]->dim[n->ints[i]]->lo <= 0) return false;
  return true;
}

static given read(const tn_node *n, const span *src, span all) {
  wide width = 8 * (wide)tn__size_of(n->dtype);
  bool is_signed = tn__dtypes[n->dtype].is_signed;
  return (given){src[0],
                 src[1],
                 src[2],
                 all,
                 is_signed ? -1 : n->dtype == TN_U64 ? (wide)UINT64_MAX : all.hi,
                 width,
                 width - is_signed,
                 has_elements(n)};
}

static span apply(const tn_node *n, const span *src, span all) {
  const row *r = rows[n->op];
  bool bits = r[TI_BITS];
  if (n->op == OP_CONST) return (span){n->ints[0], n->ints[0]};
  if (n->op == OP_VAR) return (span){n->ints[0], n->ints[1]};
  if (n->op == OP_DATUM) return (span){0, n->ints[1]};
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!known(n->src[i]->dtype, i < SOURCES ? src[i].lo : n->src[i]->lo, bits)) return all;
  given g = read(n, src, all);
  if (n->dtype == TN_BOOL && r[TI_TRUTH]) return r[TI_TRUTH](&g);
  if (bits) return r[TI_BITS](&g);
  if (r[TI_NUMBER]) return r[TI_NUMBER](&g);
  if (!r[TI_ZERO]) return all;
  return by_divisor(r, &g);
}

bool tn__interval_from(const tn_node *n, const int64_t *lo, const int64_t *hi, int64_t *from, int64_t *to) {
  bool leaf = n->op == OP_CONST || n->op == OP_VAR;
  span src[SOURCES] = {{0, 0}}, all = full(n->dtype);
  for (uint32_t i = 0; i < n->nsrc && i < SOURCES; i++) src[i] = (span){lo[i], hi[i]};
  span s = apply(n, src, all);
  bool wraps = s.lo < all.lo || s.hi > all.hi ||
               (n->dtype == TN_U64 && !leaf && !rows[n->op][TI_BITS] && s.lo < 0);
  if (wraps) s = all;
  *from = (int64_t)s.lo;
  *to = (int64_t)s.hi;
  return !wraps;
}

void tn__interval(const tn_node *n, int64_t *lo, int64_t *hi) {
  int64_t from[SOURCES] = {0}, to[SOURCES] = {0};
  for (uint32_t i = 0; i < n->nsrc && i < SOURCES; i++) from[i] = n->src[i]->lo, to[i] = n->src[i]->hi;
  tn__interval_from(n, from, to, lo, hi);
}
