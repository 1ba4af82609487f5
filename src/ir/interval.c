/* Bounds of integer and bool nodes from the bounds of their sources: one function per op.
 *
 * Bounds are those of the 64-bit patterns, read as signed.  For u64 that means: lo >= 0 says that all values are below 2^63,
 * and lo < 0 says nothing; arithmetic on such a source gives the full range. */
#include "ir/eval.h"

__extension__ typedef __int128 wide; /* holds every sum and product of two bounds */

typedef struct span {
  wide lo, hi;
} span;

static span make(wide lo, wide hi) { return (span){lo, hi}; }
static wide least(wide a, wide b) { return a < b ? a : b; }
static wide most(wide a, wide b) { return a > b ? a : b; }
static span join(span a, span b) { return make(least(a.lo, b.lo), most(a.hi, b.hi)); }
static span of(const tn_node *n) { return make(n->lo, n->hi); }
static span source(const tn_node *n, uint32_t i) { return of(n->src[i]); }

static span full(int dtype) {
  unsigned bits = 8 * (unsigned)tn__size_of(dtype);
  if (dtype == TN_BOOL) return make(0, 1);
  if (tn__dtypes[dtype].is_signed || bits == 64) return make(-((wide)1 << (bits - 1)), ((wide)1 << (bits - 1)) - 1);
  return make(0, ((wide)1 << bits) - 1);
}
static span anything(const tn_node *n) { return full(n->dtype); }

/* The least and the greatest of f at the corners of a x b: f must be monotone in each argument. */
static span corners(wide (*f)(wide, wide), span a, span b) {
  wide v[4] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return make(least(least(v[0], v[1]), least(v[2], v[3])), most(most(v[0], v[1]), most(v[2], v[3])));
}

/* Whether the bounds of source i are those of numbers. */
static bool known(const tn_node *s) {
  return !tn__is_float(s->dtype) && s->dtype != TN__VOID && (s->dtype != TN_U64 || s->lo >= 0);
}

/* ---- arithmetic ---- */

static wide times(wide a, wide b) { return a * b; }
static wide floor_div(wide a, wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static span add(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return n->dtype == TN_BOOL ? make(most(a.lo, b.lo), most(a.hi, b.hi)) : make(a.lo + b.lo, a.hi + b.hi);
}

static span mul(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return n->dtype == TN_BOOL ? make(least(a.lo, b.lo), least(a.hi, b.hi)) : corners(times, a, b);
}

static span mul_add(const tn_node *n) {
  span p = mul(n), c = source(n, 2);
  return n->dtype == TN_BOOL ? make(most(p.lo, c.lo), most(p.hi, c.hi)) : make(p.lo + c.lo, p.hi + c.hi);
}

static span neg(const tn_node *n) {
  span a = source(n, 0);
  return n->dtype == TN_BOOL ? a : make(-a.hi, -a.lo);
}

static span abs_(const tn_node *n) {
  span a = source(n, 0);
  return make(a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, most(-a.lo, a.hi));
}

static span sign(const tn_node *n) {
  span a = source(n, 0);
  return make((a.lo > 0) - (a.lo < 0), (a.hi > 0) - (a.hi < 0));
}

static span not(const tn_node *n) {
  span a = source(n, 0);
  wide top = tn__dtypes[n->dtype].is_signed ? -1 : n->dtype == TN_U64 ? UINT64_MAX : full(n->dtype).hi; /* ~x = top - x */
  return make(top - a.hi, top - a.lo);
}

/* The parts of a divisor below, at and above 0, each put through a function; an empty part has lo > hi. */
typedef span (*part_fn)(span a, span b);
static span by_sign(span a, span b, part_fn of_sign, span of_zero) {
  span below = make(b.lo, least(b.hi, -1)), above = make(most(b.lo, 1), b.hi), r = {1, 0};
  if (below.lo <= below.hi) r = of_sign(a, below);
  if (above.lo <= above.hi) r = r.lo <= r.hi ? join(r, of_sign(a, above)) : of_sign(a, above);
  if (b.lo <= 0 && b.hi >= 0) r = r.lo <= r.hi ? join(r, of_zero) : of_zero;
  return r;
}

static span idiv_part(span a, span b) { return corners(floor_div, a, b); }
static span idiv(const tn_node *n) { return by_sign(source(n, 0), source(n, 1), idiv_part, make(0, 0)); }

static span mod_part(span a, span b) {
  if (b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) { /* one period */
    wide base = floor_div(a.lo, b.lo) * b.lo;
    return make(a.lo - base, a.hi - base);
  }
  if (b.lo < 0) return a.lo > b.hi && a.hi <= 0 ? a : make(a.hi <= 0 ? most(a.lo, b.lo + 1) : b.lo + 1, 0);
  return a.lo >= 0 && a.hi < b.lo ? a : make(0, a.lo >= 0 ? least(a.hi, b.hi - 1) : b.hi - 1);
}
static span mod(const tn_node *n) { return by_sign(source(n, 0), source(n, 1), mod_part, source(n, 0)); }

static span fmod_(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  wide r = most(0, most(-b.lo, b.hi) - 1); /* |x fmod y| <= |y| - 1 */
  return make(-least(r, most(0, -a.lo)), least(r, most(0, a.hi)));
}

static span min(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return make(least(a.lo, b.lo), least(a.hi, b.hi));
}

static span max(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return make(most(a.lo, b.lo), most(a.hi, b.hi));
}

/* ---- bits ---- */

static wide mask_over(wide v) { /* the least 2^k - 1 >= v, for v >= 0 */
  wide m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

static span and(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  if (n->dtype == TN_BOOL) return min(n);
  if (a.lo < 0 && b.lo < 0) return anything(n);
  return make(0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : least(a.hi, b.hi));
}

static span or(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  if (n->dtype == TN_BOOL) return max(n);
  return a.lo < 0 || b.lo < 0 ? anything(n) : make(most(a.lo, b.lo), mask_over(most(a.hi, b.hi)));
}

static span xor(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  if (n->dtype == TN_BOOL && a.lo == a.hi && b.lo == b.hi) return make(a.lo != b.lo, a.lo != b.lo);
  return a.lo < 0 || b.lo < 0 ? anything(n) : make(0, mask_over(most(a.hi, b.hi)));
}

static wide shift_right(wide a, wide count) { return a >> (int)count; }
static wide shift_left(wide a, wide count) { return a * ((wide)1 << (int)count); }

static span shl(const tn_node *n) {
  span count = source(n, 1);
  bool narrow = count.lo >= 0 && count.hi < 8 * (wide)tn__size_of(n->dtype);
  return narrow ? corners(shift_left, source(n, 0), count) : anything(n);
}

static span shr(const tn_node *n) { /* a negative count is a large one */
  span count = source(n, 1);
  wide last = 8 * (wide)tn__size_of(n->dtype) - 1 + !tn__dtypes[n->dtype].is_signed;
  count = make(count.lo < 0 ? (count.hi < 0 ? last : 0) : least(count.lo, last), count.lo < 0 ? last : least(count.hi, last));
  return corners(shift_right, source(n, 0), count);
}

/* ---- comparisons and choice ---- */

static span verdict(bool yes, bool no) { return make(yes, !no); }

static span lt(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return verdict(a.hi < b.lo, a.lo >= b.hi);
}

static span le(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return verdict(a.hi <= b.lo, a.lo > b.hi);
}

static span eq(const tn_node *n) {
  span a = source(n, 0), b = source(n, 1);
  return verdict(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.hi < b.lo || a.lo > b.hi);
}

static span ne(const tn_node *n) {
  span e = eq(n);
  return make(1 - e.hi, 1 - e.lo);
}

static span where(const tn_node *n) {
  span c = source(n, 0), a = source(n, 1), b = source(n, 2);
  return c.lo == 1 ? a : c.hi == 0 ? b : join(a, b);
}

static span cast(const tn_node *n) {
  const tn_node *s = n->src[0];
  if (tn__is_float(s->dtype)) return anything(n);
  if (n->dtype == TN_BOOL) return verdict(s->lo > 0 || s->hi < 0, s->lo == 0 && s->hi == 0);
  return of(s);
}

static span bitcast(const tn_node *n) { return n->dtype == TN_BOOL || !known(n->src[0]) ? anything(n) : source(n, 0); }

/* ---- leaves and whole tensors ---- */

static span constant(const tn_node *n) { return make(n->ints[0], n->ints[0]); }
static span variable(const tn_node *n) { return make(n->ints[0], n->ints[1]); }
static span counter(const tn_node *n) { return make(0, most(0, source(n, 0).hi - 1)); }
static span first(const tn_node *n) { return source(n, 0); }
static span second(const tn_node *n) { return source(n, 1); }
static span first_or_zero(const tn_node *n) { return join(source(n, 0), make(0, 0)); }

typedef struct rule {
  span (*f)(const tn_node *n);
  bool patterns; /* only hands patterns on: right for every u64, too */
} rule;

static const rule rules[OP_COUNT] = {
    [OP_CONST] = {constant, true},    [OP_VAR] = {variable, true},      [OP_IOTA] = {counter, true},       [OP_RANGE] = {counter, true},
    [OP_NEG] = {neg, false},          [OP_ABS] = {abs_, false},         [OP_SIGN] = {sign, false},         [OP_NOT] = {not, false},
    [OP_ADD] = {add, false},          [OP_MUL] = {mul, false},          [OP_IDIV] = {idiv, false},         [OP_MOD] = {mod, false},
    [OP_FMOD] = {fmod_, false},       [OP_MIN] = {min, false},          [OP_MAX] = {max, false},           [OP_AND] = {and, false},
    [OP_OR] = {or, false},            [OP_XOR] = {xor, false},          [OP_SHL] = {shl, false},           [OP_SHR] = {shr, false},
    [OP_LT] = {lt, false},            [OP_LE] = {le, false},            [OP_EQ] = {eq, false},             [OP_NE] = {ne, false},
    [OP_WHERE] = {where, true},       [OP_FMA] = {mul_add, false},          [OP_CAST] = {cast, true},          [OP_BITCAST] = {bitcast, true},
    [OP_RMAX] = {first, true},        [OP_RMIN] = {first, true},        [OP_RESHAPE] = {first, true},      [OP_EXPAND] = {first, true},
    [OP_PERMUTE] = {first, true},     [OP_PAD] = {first_or_zero, true}, [OP_SHRINK] = {first, true},       [OP_FLIP] = {first, true},
    [OP_WINDOW] = {first, true},      [OP_GATHER] = {first_or_zero, true}, [OP_DETACH] = {first, true},    [OP_CONTIG] = {first, true},
    [OP_ASSIGN] = {second, true},
};

void tn__interval(const tn_node *n, int64_t *lo, int64_t *hi) {
  const rule *r = &rules[n->op];
  span all = full(n->dtype), s = all;
  bool numbers = true;
  for (uint32_t i = 0; r->f && !r->patterns && i < n->nsrc; i++) numbers &= known(n->src[i]);
  if (r->f && numbers) s = r->f(n);
  if (s.lo < all.lo || s.hi > all.hi || (n->dtype == TN_U64 && !r->patterns && s.lo < 0)) s = all; /* it may wrap */
  *lo = (int64_t)s.lo;
  *hi = (int64_t)s.hi;
}
