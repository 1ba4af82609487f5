/* Vector loops: what their values are, their accesses to memory, their accumulators.  For C.
 *
 * In a vector loop of V lanes a value is the same in all lanes, or an index that moves by a constant from lane to
 * lane, or a vector.  The first two are printed as scalars, an index as that of lane 0; a vector spreads them.
 * A wider number of lanes means wider vectors, never other results: lanes do not meet before accumulators are combined,
 * by an order that the linear form defines. */
#include "render/lanes.h"
#include "ir/math_c.inc" /* its lists of functions */
#include "ir/math.inc"
#include "render/spellings.h"
#include "tenet_embed.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SAME = TN__LANES_SAME, MOVES = TN__LANES_MOVES, VECTOR = TN__LANES_VECTOR };
enum { MOST_LEVELS = 8 }; /* of operands that are looked at: some may be met on several ways */

typedef tn__lane_value lane_value;

typedef struct tn__vector_loop {
  uint32_t start, end; /* RANGE, END */
  int count;           /* lanes */
  tn_node *acc;        /* an accumulator of lanes that it sets or reads, NULL */
} vector_loop;

/* ---- spellings: as in dialect tables, $n the type of the operands, $b bools of as many lanes ---- */

static const char *const spelling[OP_COUNT][SP_COUNT] = {
    [OP_NEG] = {SPELL_NUMBERS("-$0")},
    [OP_NOT] = {[SP_BOOL] = "~$0", SPELL_INTS("~$0")},
    [OP_ABS] = {SPELL_INTS("tn_pick_$n($0 < 0, -$0, $0)")},
    [OP_ADD] = {[SP_BOOL] = "$0 | $1", SPELL_NUMBERS("$0 + $1")},
    [OP_MUL] = {[SP_BOOL] = "$0 & $1", SPELL_NUMBERS("$0 * $1")},
    [OP_DIV] = {SPELL_FLOATS("$0 / $1")},
    [OP_AND] = {[SP_BOOL] = "$0 & $1", SPELL_WHOLE("$0 & $1")},
    [OP_OR] = {[SP_BOOL] = "$0 | $1", SPELL_WHOLE("$0 | $1")},
    [OP_XOR] = {[SP_BOOL] = "$0 ^ $1", SPELL_WHOLE("$0 ^ $1")},
    [OP_SHL] = {SPELL_INTS("tn_shl_$n($0, $1)")},
    [OP_SHR] = {SPELL_INTS("tn_shr_$n($0, $1)")},
    [OP_MIN] = {[SP_BOOL] = "$0 & $1", SPELL_WHOLE("tn_pick_$n($0 < $1, $0, $1)")},
    [OP_MAX] = {[SP_BOOL] = "$0 | $1", SPELL_WHOLE("tn_pick_$n($0 > $1, $0, $1)")},
    [OP_LT] = {[SP_BOOL] = "~$0 & $1", SPELL_NUMBERS("$b($0 < $1)")},
    [OP_LE] = {[SP_BOOL] = "~$0 | $1", SPELL_NUMBERS("$b($0 <= $1)")},
    [OP_EQ] = {[SP_BOOL] = "~($0 ^ $1)", SPELL_NUMBERS("$b($0 == $1)")},
    [OP_NE] = {[SP_BOOL] = "$0 ^ $1", SPELL_NUMBERS("$b($0 != $1)")},
    [OP_WHERE] = {[SP_BOOL] = "($0 & $1) | (~$0 & $2)", SPELL_NUMBERS("tn_where_$n($0, $1, $2)")},
};

/* What math.inc and math_f64.inc have for vectors beside functions of f32 (ROUNDING LIBRARY), of f32 and of f64; WIDE:
 * f32 by way of f64; FAR: what is far from 0.  All else goes lane by lane. */
enum { F32 = 1, F64 = 2, WIDE = 4, FAR = 8 };
static const uint8_t native[OP_COUNT] = {
#define BASIC(op, name) [OP_##op] = F32 | F64,
#define BY_F64(op, name) [OP_##op] = WIDE,
#define FAR_BY_F64(op, name) [OP_##op] = FAR,
    TN_BASIC_1(BASIC) TN_BASIC_2(BASIC) TN_MATH_BY_F64(BY_F64) TN_MATH_FAR_BY_F64(FAR_BY_F64)
    [OP_FMA] = F32 | F64, [OP_COPYSIGN] = F32 | F64,
};
static const bool has_f64[OP_COUNT] = {
#define TWICE(op, name, bound) [OP_##op] = true,
    TN_MATH_TWICE(TWICE)};

static bool has_vectors(int op, int dtype) {
  if (dtype == TN_F32) return (native[op] & F32) || tn__ops[op].rounding == RN_LIBRARY;
  return dtype == TN_F64 && ((native[op] & F64) || has_f64[op]);
}

/* ---- types ---- */

/* The kind in which a value stands in lanes: index values that fit 32 bits are narrow, and so is what is computed in
 * i64. */
static int kind_of(const tn_node *n) {
  bool fits = n->lo >= INT32_MIN && n->hi <= INT32_MAX;
  if (n->dtype == TN__INDEX) return fits ? TN__INDEX32 : TN__INDEX;
  return n->dtype == TN_I64 && fits && (n->op == OP_CONST || tn__is_elementwise(n)) ? TN_I32 : n->dtype;
}

static bool is_half(int kind) { return kind == TN_F16 || kind == TN_BF16; }
static bool is_index(int kind) { return kind == TN__INDEX || kind == TN__INDEX32; }

/* The dtype whose vectors hold values of a kind */
static int held(int kind) {
  if (is_half(kind)) return TN_F32;
  return kind == TN__INDEX ? TN_I64 : kind == TN__INDEX32 ? TN_I32 : kind;
}

static const char *name_of(int kind) { return tn__dtypes[held(kind)].name; }

static int cell_of(int dtype) { return dtype == TN_BOOL ? TN_U8 : is_half(dtype) ? TN_U16 : dtype; }

static int unsigned_of(int kind) {
  static const uint8_t by_size[] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64};
  return by_size[tn__size_of(held(kind))];
}

static int signed_of(int kind) {
  static const uint8_t by_size[] = {[1] = TN_I8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  return by_size[tn__size_of(held(kind))];
}

static const char *type_of(tn__printer *p, int kind) { return tn__print_format(p, "%sx%d", name_of(kind), p->count); }

static int column_of(int kind) {
  if (is_index(kind)) return SP_INDEX;
  if (kind == TN_BOOL) return SP_BOOL;
  return tn__is_float(kind) ? kind == TN_F64 ? SP_F64 : SP_F32 : SP_INT;
}

/* ---- texts of one dtype as texts of vectors ---- */

static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* Is it a dtype's name, or a helper's of the language? */
static bool names_dtype(const char *s, size_t n) {
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (strlen(tn__dtypes[d].name) == n && !memcmp(tn__dtypes[d].name, s, n)) return true;
  return false;
}

/* Every dtype's name is followed by the number of lanes, COUNT becomes it. */
static void put_instance(tn__sb *out, const char *text, int count) {
  for (const char *s = text, *end; *s; s = end) {
    for (end = s; is_word(*end); end++) continue;
    size_t n = (size_t)(end - s);
    if (!n) {
      tn__sb_putc(out, *end++);
    } else if (n == 5 && !memcmp(s, "COUNT", 5)) {
      tn__sb_printf(out, "%d", count);
    } else {
      tn__sb_printf(out, "%.*s", (int)n, s);
      if (names_dtype(s, n)) tn__sb_printf(out, "x%d", count);
    }
  }
}

static const char *instance(tn__printer *p, const char *text) {
  tn__sb b;
  tn__sb_init(&b, &p->c->scratch);
  put_instance(&b, text, p->count);
  return tn__sb_str(&b);
}

static void use_math(tn__printer *p) { p->math |= (uint32_t)p->count; }

/* Vectors of as many f64, or of half as many */
static void use_far(tn__printer *p) {
  if (8 * p->count <= p->c->vector_bytes) return;
  uint32_t half = (uint32_t)p->count / 2;
  p->far |= (uint32_t)p->count;
  p->counts |= half;
  p->math |= half;
}

/* ---- helpers that go lane by lane ---- */

void tn__lanes_need(tn__printer *p, const char *line) {
  for (uint32_t i = 0; i < p->needs.n; i++)
    if (!strcmp(p->needs.v[i], line)) return;
  tn__vec_push(&p->c->scratch, &p->needs, line);
}

/* Calls the helper `name` of scalars on vectors: its own form for them, or one that takes lane after lane. */
static const char *call(tn__printer *p, const char *name, bool has_form, int to, int from, uint32_t n,
                        const char *const *operand) {
  const char *form = instance(p, name);
  if (has_form) use_math(p);
  else
    tn__lanes_need(p, tn__print_format(p, "TN_BY_LANES_%" PRIu32 "(%d, %s, %s, %s, %s)", n, p->count, type_of(p, to),
                                       type_of(p, from), form, name));
  return n == 1   ? tn__print_format(p, "%s(%s)", form, operand[0])
         : n == 2 ? tn__print_format(p, "%s(%s, %s)", form, operand[0], operand[1])
                  : tn__print_format(p, "%s(%s, %s, %s)", form, operand[0], operand[1], operand[2]);
}

static const char *call_one(tn__printer *p, const char *name, const char *x) {
  return call(p, name, true, 0, 0, 1, &x);
}

/* ---- conversions, between vectors of as many lanes ---- */

/* A level may have it in a better form than the compiler's (lanes_c.inc): then the name is a macro. */
static const char *cast_once(tn__printer *p, int from, int to, const char *x) {
  const char *a = type_of(p, from), *b = type_of(p, to), *name = tn__print_format(p, "tn_cast_%s_%s", a, b);
  tn__lanes_need(p, tn__print_format(p, "#ifndef %s\nTN_CAST(%s, %s)\n#endif", name, a, b));
  return tn__print_format(p, "%s(%s)", name, x);
}

/* Integers first become as wide as is wanted, with the sign that they have; short ones go to floats by way of i32. */
static const char *cast_lanes(tn__printer *p, int from, int to, const char *x) {
  bool whole = !tn__is_float(to), sign = tn__dtypes[from].is_signed;
  int way = from;
  if (from == to) return x;
  if (whole && !tn__is_float(from)) way = sign ? signed_of(to) : unsigned_of(to);
  else if (tn__size_of(from) < 4) way = sign ? TN_I32 : TN_U32;
  if (way != from) x = cast_once(p, from, way, x);
  if (way == TN_U32 && from != way && !whole) way = TN_I32, x = tn__print_format(p, "(%s)%s", type_of(p, way), x);
  if (way == to) return x;
  if (whole && !tn__is_float(from)) return tn__print_format(p, "(%s)(%s)", type_of(p, to), x);
  return cast_once(p, way, to, x);
}

/* ---- operands ---- */

const tn__lane_value *tn__lanes_value(const tn__printer *p, const tn_node *n) {
  static const lane_value same = {.form = SAME};
  const lane_value *v = tn__map_getp(&p->lane, n);
  return v ? v : &same;
}

static const lane_value *value_of(const tn__printer *p, const tn_node *n) { return tn__lanes_value(p, n); }

/* n as a vector of its own kind */
static const char *spread(tn__printer *p, tn_node *n) {
  const lane_value *v = value_of(p, n);
  const char *name = tn__print_name(p, n), *type = type_of(p, kind_of(n));
  if (v->form == VECTOR) return name;
  if (v->form == MOVES) return tn__print_format(p, "tn_step_%s(%s, %" PRId64 ")", type, name, v->step);
  return tn__print_format(p, "tn_all_%s(%s)", type, name);
}

/* ... of another kind */
static const char *as_kind(tn__printer *p, tn_node *n, int kind) {
  const char *x = spread(p, n);
  return cast_lanes(p, held(kind_of(n)), held(kind), x);
}

/* ---- values ---- */

static const char *rounded(tn__printer *p, int kind, const char *x, bool rounds) {
  if (!rounds) return x;
  return call_one(p, kind == TN_F16 ? "tn_f16_round" : "tn_bf16_round", x);
}

/* An op over vectors; *rounds: the result is yet to be rounded. */
static const char *exact_text(tn__printer *p, int op, int kind, int skind, const char *const *operand, bool *rounds) {
  uint32_t n = tn__ops[op].min_src;
  bool own = op == OP_FMA && is_half(skind); /* rounds once */
  int compute = own ? skind : held(skind);
  bool exact = op == OP_WHERE || op == OP_NEG || op == OP_ABS || op == OP_MIN || op == OP_MAX;
  *rounds = is_half(kind) && !exact && !own;
  const char *text = own ? NULL : spelling[op][column_of(is_index(skind) ? skind : compute)];
  if (text) {
    tn__words w = {.word = {['n'] = type_of(p, skind), ['b'] = tn__print_format(p, "tn_boolx%d", p->count)}};
    for (uint32_t i = 0; i < n; i++) w.word['0' + i] = operand[i];
    return tn__print_expand(p, text, &w);
  }
  if (skind == TN_BOOL) { /* as eval: arithmetic on 0 and 1 */
    const char *number[3];
    for (uint32_t i = 0; i < n; i++)
      number[i] = tn__print_format(p, "tn_of_bool_%s(%s)", type_of(p, TN_U8), operand[i]);
    return tn__print_format(p, "tn_boolx%d(%s != 0)", p->count, exact_text(p, op, TN_U8, TN_U8, number, rounds));
  }
  const char *name = tn__print_format(p, "tn_%s_%s", tn__ops[op].text, own ? tn__dtypes[skind].name : name_of(skind));
  bool has_form = has_vectors(op, compute);
  if (compute == TN_F64 && has_f64[op]) p->math_f64 |= (uint32_t)p->count;
  if (compute == TN_F32 && (native[op] & FAR)) use_far(p);
  return call(p, name, has_form, kind, skind, n, operand);
}

static const char *apply(tn__printer *p, int op, int dtype, const char *const *operand) {
  bool rounds;
  const char *x = exact_text(p, op, dtype, dtype, operand, &rounds);
  return rounded(p, dtype, x, rounds);
}

static const char *cast_text(tn__printer *p, int from, int to, const char *x, bool *rounds) {
  int wide = held(from);
  if (is_index(from)) from = wide;
  if (is_index(to)) to = held(to);
  if (from == to) return x;
  if (to == TN_BOOL) return tn__print_format(p, "tn_boolx%d(%s != 0)", p->count, x);
  if (from == TN_BOOL) return tn__print_format(p, "tn_of_bool_%s(%s)", type_of(p, to), x);
  if (tn__is_float(from) && !tn__is_float(to))
    return call(p, tn__print_format(p, "tn_%s_to_%s", name_of(from), name_of(to)), false, to, from, 1, &x);
  bool exact = wide == TN_F32 || tn__size_of(from) <= 2; /* as an f32 */
  if (is_half(to) && !exact) /* by way of f32 it would round twice */
    return call(p, tn__print_format(p, "tn_%s_to_%s", name_of(from), tn__dtypes[to].name), false, to, from, 1, &x);
  *rounds = is_half(to);
  return cast_lanes(p, wide, held(to), x);
}

/* What is stored, or added, as the buffer has it */
static const char *as_stored(tn__printer *p, tn_node *n) {
  bool counted = n->op == OP_STOREADD && tn__is_counted(n->src[0]->dtype, n->src[2]->dtype), rounds = false;
  if (!counted) return as_kind(p, n->src[2], n->src[0]->dtype);
  return cast_text(p, TN_F32, TN_I64, spread(p, n->src[2]), &rounds);
}

/* Values as they stand in memory, and back; rounds: x is longer than its dtype. */
static const char *to_cell(tn__printer *p, int dtype, const char *x, bool rounds) {
  if (dtype == TN_BOOL) return tn__print_format(p, "tn_of_bool_%s(%s)", type_of(p, TN_U8), x);
  if (!is_half(dtype)) return x;
  return call_one(p, dtype == TN_F16 ? "tn_f16_cells" : rounds ? "tn_bf16_cells" : "tn_bf16_upper", x);
}

static const char *of_cell(tn__printer *p, int dtype, const char *x) {
  if (dtype == TN_BOOL) return tn__print_format(p, "tn_boolx%d(%s != 0)", p->count, x);
  if (!is_half(dtype)) return x;
  return call_one(p, dtype == TN_F16 ? "tn_f16_held" : "tn_bf16_held", x);
}

/* A half float that came as it stands in memory goes on so: nothing rounds it, and a NaN keeps its bits. */
static const char *name_cells(tn__printer *p, tn_node *n, const char *x) {
  const char *cells = tn__print_format(p, "c%" PRIu32, p->nvalue);
  tn__print_line(p, "const %s %s = %s;", type_of(p, TN_U16), cells, x);
  tn__map_putp(&p->cells, n, cells);
  return cells;
}

static const char *keep_cells(tn__printer *p, tn_node *n, const char *x) {
  return of_cell(p, n->dtype, is_half(n->dtype) ? name_cells(p, n, x) : x);
}

static const char *cells_of(tn__printer *p, tn_node *n) {
  const char *cells = tn__map_getp(&p->cells, n);
  return cells ? cells : to_cell(p, n->dtype, as_kind(p, n, n->dtype), false);
}

static const char *bitcast_text(tn__printer *p, tn_node *n) {
  int cell = cell_of(n->src[0]->dtype), wanted = cell_of(n->dtype);
  const char *x = cells_of(p, n->src[0]);
  if (cell != wanted) x = tn__print_format(p, "(%s)%s", type_of(p, wanted), x);
  return keep_cells(p, n, x);
}

/* Index division where no lane can trap: by the same positive number in all, of what is not negative */
static bool divides_plainly(const tn__printer *p, const tn_node *n) {
  return (n->op == OP_IDIV || n->op == OP_MOD) && n->dtype == TN__INDEX && n->src[0]->lo >= 0 && n->src[1]->lo > 0 &&
         value_of(p, n->src[1])->form == SAME;
}

static bool may_be_narrow(const tn_node *n) { return n->dtype == TN__INDEX || n->dtype == TN_I64; }

/* The kind in which an op on such values is computed: narrow if all of them and the result are. */
static int index_kind(const tn_node *n) {
  uint32_t first = n->op == OP_WHERE;
  bool wide = may_be_narrow(n) && held(kind_of(n)) == TN_I64, index = n->src[first]->dtype == TN__INDEX;
  for (uint32_t i = first; i < n->nsrc; i++) wide |= held(kind_of(n->src[i])) == TN_I64;
  if (index) return wide ? TN__INDEX : TN__INDEX32;
  return wide ? TN_I64 : TN_I32;
}

static const char *index_text(tn__printer *p, tn_node *n) {
  bool rounds;
  uint32_t first = n->op == OP_WHERE;
  int compute = index_kind(n), kind = may_be_narrow(n) ? kind_of(n) : n->dtype;
  const char *operand[3] = {first ? spread(p, n->src[0]) : NULL}, *x;
  for (uint32_t i = first; i < n->nsrc; i++) operand[i] = as_kind(p, n->src[i], compute);
  if (divides_plainly(p, n)) {
    const char *u = type_of(p, unsigned_of(compute));
    char divide = n->op == OP_MOD ? '%' : '/';
    x = tn__print_format(p, "(%s)((%s)%s %c (%s)%s)", type_of(p, compute), u, operand[0], divide, u, operand[1]);
  } else {
    x = exact_text(p, n->op, may_be_narrow(n) ? compute : kind, compute, operand, &rounds);
  }
  return may_be_narrow(n) ? cast_lanes(p, held(compute), held(kind), x) : x;
}

/* Is index n a multiple of four in lane 0 of each vector?  The loop goes on by whole vectors from 0.  Looks at so many
 * levels of operands. */
/* a choice: no is right */
static bool begins_with_four(const tn__printer *p, const tn_node *n, int levels) {
  int64_t v;
  if (tn__const_int(n, &v)) return v % 4 == 0;
  if (n->op == OP_RANGE) return value_of(p, n)->form == MOVES && p->count % 4 == 0;
  if ((n->op != OP_MUL && n->op != OP_ADD) || !levels) return false;
  bool first = begins_with_four(p, n->src[0], levels - 1);
  return first == (n->op == OP_MUL) ? first : begins_with_four(p, n->src[1], levels - 1);
}

/* Do each four lanes of integer n differ in the two lowest bits alone? */
/* a choice: no is right */
static bool have_one_block(const tn__printer *p, const tn_node *n, int levels) {
  const lane_value *v = value_of(p, n);
  if (v->form == SAME) return true;
  if (v->form == MOVES) return v->step == 1 && begins_with_four(p, n, MOST_LEVELS);
  bool cast = n->op == OP_CAST && !tn__is_float(n->src[0]->dtype) && n->src[0]->dtype != TN_BOOL,
       bits = n->op == OP_AND || n->op == OP_OR || n->op == OP_XOR;
  return levels && (cast || bits) && have_one_block(p, n->src[0], levels - 1) &&
         (cast || have_one_block(p, n->src[1], levels - 1));
}

/* Elements of four share a block of random bits (math.inc). */
static const char *philox_text(tn__printer *p, const tn_node *n, const char *const *operand) {
  bool one = value_of(p, n->src[1])->form == SAME && value_of(p, n->src[2])->form == SAME && p->count % 4 == 0;
  const char *name = one && have_one_block(p, n->src[0], MOST_LEVELS) ? "tn_philox_in_blocks_u64" : "tn_philox_u64";
  return call(p, name, true, n->dtype, n->src[0]->dtype, n->nsrc, operand);
}

static const char *vector_text(tn__printer *p, tn_node *n, bool *rounds) {
  uint32_t first = n->op == OP_WHERE;
  int kind = kind_of(n), skind = kind_of(n->src[first]);
  const char *operand[3] = {0};
  *rounds = false;
  if (may_be_narrow(n->src[first]) && n->op != OP_CAST && n->op != OP_BITCAST) return index_text(p, n);
  for (uint32_t i = 0; i < n->nsrc; i++) operand[i] = spread(p, n->src[i]);
  if (n->op == OP_CAST) return cast_text(p, skind, kind, operand[0], rounds);
  if (n->op == OP_BITCAST) return bitcast_text(p, n);
  if (n->op == OP_PHILOX) return philox_text(p, n, operand);
  return exact_text(p, n->op, kind, skind, operand, rounds);
}

static void declare(tn__printer *p, tn_node *n, const char *text) {
  const char *name = tn__print_give(p, n, 'v', p->nvalue++);
  tn__print_line(p, "const %s %s = %s;", type_of(p, kind_of(n)), name, text);
}

/* As scalars do, a value that is stored need not be rounded for that: x<N> is what v<N> was before. */
static void put_vector(tn__printer *p, tn_node *n) {
  bool rounds;
  if (value_of(p, n)->copied) {
    const char *operand[] = {spread(p, n->src[0]), cells_of(p, n->src[1]), cells_of(p, n->src[2])};
    name_cells(p, n, apply(p, OP_WHERE, TN_U16, operand));
    p->nvalue++;
    return;
  }
  const char *x = vector_text(p, n, &rounds);
  uint64_t stored;
  if (rounds && tn__map_get(&p->stored, (uintptr_t)n, &stored)) {
    const char *exact = tn__print_format(p, "x%" PRIu32, p->nvalue);
    tn__print_line(p, "const %s %s = %s;", type_of(p, n->dtype), exact, x);
    tn__map_putp(&p->stored, n, exact);
    x = exact;
  }
  declare(p, n, rounded(p, n->dtype, x, rounds));
}

/* ---- forms: which values are vectors, and how wide ---- */

static lane_value form_of(const tn__printer *p, const tn_node *n) {
  bool differs = n->op == OP_GETACC;
  for (uint32_t i = 0; i < n->nsrc; i++) differs |= value_of(p, n->src[i])->form != SAME;
  lane_value out = {.form = differs ? VECTOR : SAME}, a = *value_of(p, n->src[0]);
  if (!differs || n->dtype != TN__INDEX) return out;
  lane_value b = n->nsrc > 1 ? *value_of(p, n->src[1]) : (lane_value){.form = SAME};
  int64_t by;
  if (a.form == VECTOR || b.form == VECTOR) return out;
  bool lost = true;
  if (n->op == OP_ADD) lost = __builtin_add_overflow(a.step, b.step, &out.step);
  else if (n->op == OP_NEG) lost = __builtin_sub_overflow(0, a.step, &out.step);
  else if (n->op == OP_MUL && tn__const_int(n->src[1], &by)) lost = __builtin_mul_overflow(a.step, by, &out.step);
  else if (n->op == OP_MUL && tn__const_int(n->src[0], &by)) lost = __builtin_mul_overflow(b.step, by, &out.step);
  if (!lost) out.form = out.step ? MOVES : SAME;
  return out;
}

static bool is_access(const tn_node *n) { return n->op == OP_LOAD || n->op == OP_STORE || n->op == OP_STOREADD; }

static bool is_copied(const tn__printer *p, const tn_node *n) {
  const lane_value *v = tn__map_getp(&p->lane, n);
  return v && v->copied;
}

/* n wants its source s: only a store takes cells, and what chooses between such.  Two factors stand in a list. */
static bool keep_copied(const tn__printer *p, const tn_node *n, uint32_t s) {
  const tn_node *from = n->src[s];
  bool list = from->op == OP_LIST, changed = false;
  bool takes = (n->op == OP_STORE && s == 2) || (n->op == OP_WHERE && s && is_copied(p, n));
  for (uint32_t i = 0; i < (list ? from->nsrc : 1) && !takes; i++) {
    lane_value *v = tn__map_getp(&p->lane, list ? from->src[i] : from);
    if (!v || !v->copied) continue;
    v->copied = false;
    changed = true;
  }
  return changed;
}

/* Which half floats are cells alone: loaded, or chosen among such, and wanted by nothing else.  Whether one is hangs on
 * those around it. */
static void find_copied(tn__printer *p, uint32_t start, uint32_t end) {
  bool changed = false;
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    lane_value *v = tn__map_getp(&p->lane, n);
    bool chosen = n->op == OP_WHERE && is_copied(p, n->src[1]) && is_copied(p, n->src[2]);
    v->copied = (n->op == OP_LOAD || chosen) && v->form == VECTOR && is_half(n->dtype);
    changed |= v->copied;
  }
  while (changed) {
    changed = false;
    for (uint32_t i = end; i-- > start + 1;)
      for (uint32_t s = 0; s < p->part->ins[i]->nsrc; s++) changed |= keep_copied(p, p->part->ins[i], s);
    for (uint32_t i = start + 1; i < end && changed; i++) {
      tn_node *n = p->part->ins[i];
      lane_value *v = tn__map_getp(&p->lane, n);
      if (n->op == OP_WHERE && v->copied) v->copied = is_copied(p, n->src[1]) && is_copied(p, n->src[2]);
    }
  }
}

void tn__lanes_forms(tn__printer *p, uint32_t start, uint32_t end) {
  tn__map_init(&p->lane, &p->c->scratch);
  tn__map_init(&p->cells, &p->c->scratch);
  for (uint32_t i = start; i < end; i++) {
    tn_node *n = p->part->ins[i];
    lane_value *v = tn__arena_alloc(&p->c->scratch, sizeof *v);
    *v = i == start ? (lane_value){.form = MOVES, .step = 1} : form_of(p, n);
    tn__map_putp(&p->lane, n, v);
  }
  find_copied(p, start, end);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Are lanes so many cells apart loaded as vectors of neighbours, of which most is left?  Backwards always; else where
 * that was measured to take less than a gather, by bytes of vectors and of cells: all lanes, or the first so many, and
 * those that a mask wants, for which few levels have loads of small cells.  (64 bytes by their instructions alone.) */
static bool is_spaced(const tn__printer *p, int64_t step, int dtype, bool masked) {
  static const struct {
    int vector, most[2][9];
  } apart[] = {{64, {{[1] = 4, [2] = 4, [4] = 4}, {[2] = 4, [4] = 2}}},
               {32, {{[1] = 4, [2] = 4, [4] = 2}, {[4] = 2}}}};
  for (size_t i = 0; i < sizeof apart / sizeof *apart && step > 1; i++)
    if (p->c->vector_bytes == apart[i].vector) return step <= apart[i].most[masked][tn__size_of(dtype)];
  return step == -1;
}

/* Is a step of so many cells more than indices of 32 bits hold for all lanes? */
static bool is_far(int64_t step) { return step > INT32_MAX / 64 || step < INT32_MIN / 64; }

/* Bytes of an index that says where each lane of n is; 1, as narrow as there is, where no index is wanted: all lanes,
 * or a constant number of them, are loaded as vectors of neighbours.  (A mask that is a vector is of wider numbers.) */
static size_t index_width(const tn__printer *p, const tn_node *n, bool constant) {
  const lane_value *at = value_of(p, n->src[1]);
  const tn_node *gate = tn__gate_of(n);
  if (at->form == VECTOR) return tn__size_of(held(kind_of(n->src[1])));
  if (at->step == 1) return 1;
  if (constant && n->op == OP_LOAD && at->step > 1 && (!gate || value_of(p, gate)->form == SAME) &&
      is_spaced(p, at->step, n->src[0]->dtype, false))
    return 1;
  return is_far(at->step) ? 8 : 4;
}

/* Does n store narrow values as i64, side by side?  Vectors of these are stored by halves. */
static bool stores_wide(const tn__printer *p, const tn_node *n) {
  return n->op == OP_STORE && n->src[0]->dtype == TN_I64 && kind_of(n->src[2]) == TN_I32 &&
         value_of(p, n->src[2])->form == VECTOR && value_of(p, n->src[1])->form == MOVES &&
         value_of(p, n->src[1])->step == 1;
}

/* Bytes of the widest element of a vector that n needs, in a loop of a constant number of turns or another one */
static size_t width_of(const tn__printer *p, const tn_node *n, bool constant) {
  size_t width = 1;
  const lane_value *v = value_of(p, n);
  bool memory = is_access(n), set = n->op == OP_SETACC;
  bool copied = v->copied || (n->op == OP_STORE && value_of(p, n->src[2])->copied);
  if (v->form == VECTOR) width = tn__size_of(copied ? cell_of(n->dtype) : held(kind_of(n)));
  if (memory) {
    int cell = stores_wide(p, n) ? kind_of(n->src[2]) : n->src[0]->dtype;
    width = larger(width, tn__size_of(copied ? cell_of(cell) : held(cell)));
    width = larger(width, index_width(p, n, constant));
  }
  if (set) width = larger(width, tn__size_of(held(n->src[0]->dtype)));
  for (uint32_t i = set || memory; i < n->nsrc; i++) {
    bool number = (memory && i == 1) || ((set || n->op == OP_GETACC) && n->src[i]->op == OP_RANGE);
    if (number || v->form != VECTOR || value_of(p, n->src[i])->copied) continue; /* a number is no vector */
    width = larger(width, tn__size_of(held(kind_of(n->src[i]))));
  }
  bool wide = n->op == OP_PHILOX || ((native[n->op] & WIDE) && tn__is_float(n->dtype));
  return wide && v->form == VECTOR ? 8 : width;
}

enum { SHORTEST = 16 }; /* bytes of a vector of which a processor has all instructions */

/* Few lanes of a longer vector are in use: one that is but as long as has to be crosses fewer lines of a cache, and
 * takes a masked access less time. */
/* a choice: any is right */
static int lanes_of(const tn__printer *p, const vector_loop *l) {
  size_t width = 1;
  int64_t n = INT64_MAX;
  bool constant = tn__const_int(p->part->ins[l->start]->src[0], &n);
  for (uint32_t i = l->start + 1; i < l->end; i++) width = larger(width, width_of(p, p->part->ins[i], constant));
  int count = (int)((size_t)p->c->vector_bytes / width);
  bool alone = !l->acc && n <= count / 2;
  while (alone && count / 2 >= n && count > p->c->vector_bytes / 8 && (size_t)count * width > SHORTEST) count /= 2;
  return count;
}

static vector_loop find_loop(const tn__printer *p, uint32_t start) {
  vector_loop l = {.start = start, .end = start + 1};
  for (; p->part->ins[l.end]->op != OP_END; l.end++) {
    tn_node *n = p->part->ins[l.end];
    if (n->op == OP_RANGE) tn__fail(p->c, TN_ERUN, "kernel %s has a loop inside of a vector loop", p->k->name);
    if ((n->op == OP_SETACC || n->op == OP_GETACC) && n->nsrc > 2) l.acc = n->src[0];
  }
  return l;
}

/* Loops that share accumulators have the same number of lanes: that of the narrowest.  No more than there are cells,
 * but whole vectors for the widest type. */
static bool agree(tn__printer *p, vector_loop *l) {
  bool changed = false;
  for (uint32_t i = l->start + 1; i < l->end; i++) {
    const tn_node *n = p->part->ins[i];
    uint64_t count = 0;
    if ((n->op != OP_SETACC && n->op != OP_GETACC) || n->nsrc < 3) continue;
    bool known = tn__map_get(&p->lanes, (uintptr_t)n->src[0], &count);
    if (!known) count = (uint64_t)n->src[0]->ints[1];
    int least = p->c->vector_bytes / 8, common = (int)count < least ? least : (int)count;
    bool narrower = common < l->count; /* then its other accumulators are, too */
    if (narrower) l->count = common;
    changed |= !known || narrower || (int)count != l->count;
    tn__map_put(&p->lanes, (uintptr_t)n->src[0], (uint64_t)l->count);
  }
  return changed;
}

void tn__lanes_plan(tn__printer *p) {
  tn__map_init(&p->lanes, &p->c->scratch);
  tn__map_init(&p->combined, &p->c->scratch);
  p->loops.n = 0;
  for (uint32_t i = 0; i < p->part->n; i++) {
    tn_node *n = p->part->ins[i];
    if (n->op == OP_GETACC && n->nsrc < 3) tn__map_putp(&p->combined, n->src[0], n);
    if (n->op != OP_RANGE || n->ints[0] != AX_UPCAST) continue;
    vector_loop l = find_loop(p, i);
    tn__lanes_forms(p, l.start, l.end);
    l.count = lanes_of(p, &l);
    vector_loop *kept = tn__arena_alloc(&p->c->scratch, sizeof *kept);
    *kept = l;
    tn__vec_push(&p->c->scratch, &p->loops, kept);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < p->loops.n; i++) changed |= agree(p, p->loops.v[i]);
  }
  for (uint32_t i = 0; i < p->loops.n; i++) p->counts |= (uint32_t)p->loops.v[i]->count;
}

/* ---- memory ---- */

typedef struct access {
  const char *place, *index; /* a pointer; a vector of steps from there, NULL: lanes are neighbours */
  const char *far;           /* "far_" where the index is wide */
  int64_t spaced;            /* lanes are so many cells apart, 0: as the index says */
  const char *test;          /* what a gate is in all lanes, NULL */
  const char *mask;          /* a gate of its own for each lane, NULL */
  int cell;
} access;

/* What all lanes have in common of a gate, NULL: nothing.  Where that is closed nothing is touched: a masked access to
 * memory that is not there takes a hundred times as long. */
static const char *common_test(tn__printer *p, tn_node *gate) {
  if (value_of(p, gate)->form == SAME) return tn__print_name(p, gate);
  if (gate->op != OP_AND) return NULL;
  const char *x = common_test(p, gate->src[0]), *y = common_test(p, gate->src[1]);
  return x && y ? tn__print_format(p, "(%s & %s)", x, y) : x ? x : y;
}

/* The first lanes that are wanted, where that is a constant and no other lane is; 0: a mask says */
static int64_t first_lanes(const tn__printer *p, const access *a) {
  return !a->mask ? p->count : a->mask == p->rest ? p->first : 0;
}

static access access_of(tn__printer *p, tn_node *n, tn_node *gate) {
  const lane_value *at = value_of(p, n->src[1]);
  tn_node *buf = n->src[0];
  const char *array = tn__print_format(p, "%c%" PRId64, buf->op == OP_LOCAL ? 'l' : 'b', buf->ints[0]);
  access a = {.cell = cell_of(buf->dtype), .far = "", .mask = p->rest};
  if (at->form == VECTOR) {
    a.place = array;
    a.index = tn__print_name(p, n->src[1]);
    if (kind_of(n->src[1]) == TN__INDEX) a.far = "far_";
  } else {
    bool wide = is_far(at->step);
    a.place = tn__print_format(p, "&%s[%s]", array, tn__print_name(p, n->src[1]));
    if (at->step != 1)
      a.index = tn__print_format(p, "tn_step_%s(0, %" PRId64 ")", type_of(p, wide ? TN_I64 : TN_I32), at->step);
    if (wide) a.far = "far_";
  }
  const char *open = gate ? tn__print_name(p, gate) : NULL;
  if (gate) a.test = common_test(p, gate);
  if (gate && value_of(p, gate)->form != SAME) a.mask = p->rest ? tn__print_format(p, "%s & %s", open, p->rest) : open;
  if (at->form != VECTOR && is_spaced(p, at->step, buf->dtype, !first_lanes(p, &a))) a.spaced = at->step;
  return a;
}

static const char *mask_of(tn__printer *p, const access *a) {
  return a->mask ? a->mask : tn__print_format(p, "tn_all_boolx%d(1)", p->count);
}

/* Cells that are so far apart, of the first n lanes */
static const char *cells_apart(tn__printer *p, const access *a, int64_t n) {
  const char *type = type_of(p, a->cell);
  if (a->spaced < 0) {
    tn__lanes_need(p, tn__print_format(p, "#define tn_back_%s(p, n) tn_back_##n##_%s(p)", type, type));
    tn__lanes_need(p, tn__print_format(p, "TN_BACK(%d, %s, boolx%d, %" PRId64 ")", p->count, type, p->count, n));
    return tn__print_format(p, "tn_back_%s(%s, %" PRId64 ")", type, a->place, n);
  }
  const char *numbers = tn__print_format(p, "%" PRId64 ", %" PRId64, a->spaced, n);
  tn__lanes_need(p, tn__print_format(p, "#define tn_apart_%s(p, s, n) tn_apart_##s##_##n##_%s(p)", type, type));
  tn__lanes_need(p, tn__print_format(p, "TN_APART(%d, %s, boolx%d, %s)", p->count, type, p->count, numbers));
  return tn__print_format(p, "tn_apart_%s(%s, %s)", type, a->place, numbers);
}

static const char *cells_at(tn__printer *p, const access *a) {
  const char *type = type_of(p, a->cell), *x;
  int64_t first = first_lanes(p, a);
  if (a->spaced && first) {
    x = cells_apart(p, a, first);
  } else if (a->spaced) {
    tn__lanes_need(p, tn__print_format(p, "TN_SPACED(%d, %s, boolx%d)", p->count, type, p->count));
    x = tn__print_format(p, "tn_spaced_%s(%s, %" PRId64 ", %s)", type, a->place, a->spaced, mask_of(p, a));
  } else if (a->index) {
    x = tn__print_format(p, "tn_gather_%s%s(%s, %s, %s)", a->far, type, a->place, a->index, mask_of(p, a));
  } else if (a->mask) {
    x = tn__print_format(p, "tn_load_if_%s(%s, %s)", type, a->place, a->mask);
  } else {
    x = tn__print_format(p, "tn_load_%s(%s)", type, a->place);
  }
  return a->test ? tn__print_format(p, "%s ? %s : tn_all_%s(0)", a->test, x, type) : x;
}

static void put_cells(tn__printer *p, const access *a, const char *x) {
  const char *type = type_of(p, a->cell), *test = a->test ? tn__print_format(p, "if (%s) ", a->test) : "";
  if (a->index)
    tn__print_line(p, "%stn_scatter_%s%s(%s, %s, %s, %s);", test, a->far, type, a->place, a->index, x, mask_of(p, a));
  else if (a->mask) tn__print_line(p, "%stn_store_if_%s(%s, %s, %s);", test, type, a->place, x, a->mask);
  else tn__print_line(p, "%stn_store_%s(%s, %s);", test, type, a->place, x);
}

/* Narrow values as i64, of which they would fill two vectors */
static void put_wide(tn__printer *p, tn_node *n, const access *a) {
  const char *type = type_of(p, TN_I32), *test = a->test ? tn__print_format(p, "if (%s) ", a->test) : "";
  const char *x = spread(p, n->src[2]);
  int half = p->count / 2;
  p->counts |= (uint32_t)half;
  tn__lanes_need(p, tn__print_format(p, "#ifndef tn_cast_i32x%d_i64x%d\nTN_CAST(i32x%d, i64x%d)\n#endif", half, half,
                                     half, half));
  tn__lanes_need(p, tn__print_format(p, "TN_STORE_WIDE(%d, %d)", p->count, half));
  if (a->mask) tn__print_line(p, "%stn_store_wide_if_%s(%s, %s, %s);", test, type, a->place, x, a->mask);
  else tn__print_line(p, "%stn_store_wide_%s(%s, %s);", test, type, a->place, x);
}

/* The gate, NULL: open; false: closed, as is known */
static bool opens(const tn__printer *p, tn_node **gate) {
  int known = *gate ? tn__inside_gate(p, *gate) : -1;
  if (known == 1) *gate = NULL;
  return known != 0;
}

static void put_load(tn__printer *p, tn_node *n) {
  tn_node *gate = tn__gate_of(n);
  if (!opens(p, &gate)) {
    const char *none = tn__print_format(p, "tn_all_%s(0)", type_of(p, cell_of(n->dtype)));
    if (value_of(p, n)->copied) name_cells(p, n, none), p->nvalue++;
    else declare(p, n, keep_cells(p, n, none));
    return;
  }
  access a = access_of(p, n, gate);
  const char *x = cells_at(p, &a);
  if (a.test && cell_of(n->dtype) != n->dtype) x = tn__print_format(p, "(%s)", x);
  if (value_of(p, n)->copied) name_cells(p, n, x), p->nvalue++;
  else declare(p, n, keep_cells(p, n, x));
}

/* Lanes that may add to one address do so one after the other. */
static void put_adds(tn__printer *p, tn_node *n, const access *a) {
  int dtype = n->src[0]->dtype;
  bool moves = value_of(p, n->src[1])->form == VECTOR;
  const char *array = tn__print_format(p, "%c%" PRId64, n->src[0]->op == OP_LOCAL ? 'l' : 'b', n->src[0]->ints[0]);
  const char *element = tn__print_format(p, moves ? "%s[%s[l]]" : "%s[%s]", array, tn__print_name(p, n->src[1]));
  const char *value = tn__print_name(p, n->src[2]), *number = tn__print_format(p, "w%" PRIu32, p->nvalue++);
  tn__print_line(p, "const %s %s = %s;", type_of(p, dtype), number, as_stored(p, n));
  value = tn__print_format(p, dtype == TN_BOOL ? "(%s[l] != 0)" : "%s[l]", number);
  if (a->test) tn__print_line(p, "if (%s)", a->test);
  tn__print_line(p, "for (int l = 0; l < %d; l++)", p->count);
  p->depth++;
  if (a->mask) tn__print_line(p, "if ((%s)[l])", a->mask);
  tn__print_line(p, "%s = %s;", element, tn__print_combined(p, tn__combines_by(n), dtype, element, value));
  p->depth--;
}

static void put_store(tn__printer *p, tn_node *n) {
  int dtype = n->src[0]->dtype;
  tn_node *gate = tn__gate_of(n);
  if (!opens(p, &gate)) return;
  access a = access_of(p, n, gate);
  if (stores_wide(p, n) && 8 * p->count > p->c->vector_bytes) {
    put_wide(p, n, &a);
    return;
  }
  const lane_value *at = value_of(p, n->src[1]);
  if (n->op == OP_STOREADD && (at->form == VECTOR || at->step == 0)) {
    put_adds(p, n, &a);
    return;
  }
  bool vector = value_of(p, n->src[2])->form == VECTOR;
  const char *exact = n->op == OP_STORE && vector ? tn__map_getp(&p->stored, n->src[2]) : NULL;
  bool own = n->op == OP_STORE && vector && !exact;
  const char *x = exact ? exact : own ? NULL : as_stored(p, n);
  if (n->op == OP_STOREADD) {
    access plain = a;
    plain.test = NULL; /* the store has it */
    x = apply(p, tn__combines_by(n), dtype, (const char *[]){of_cell(p, dtype, cells_at(p, &plain)), x});
  }
  put_cells(p, &a, own ? cells_of(p, n->src[2]) : to_cell(p, dtype, x, exact != NULL));
}

/* ---- accumulators ---- */

/* Vectors of which an accumulator consists, 0 if it is a plain variable */
static int64_t pieces(tn__printer *p, tn_node *acc) {
  uint64_t count;
  if (!tn__map_get(&p->lanes, (uintptr_t)acc, &count)) return 0;
  p->count = (int)count;
  return acc->ints[1] > p->count ? acc->ints[1] / p->count : 1;
}

static const char *piece_of(tn__printer *p, tn_node *acc, int64_t piece) {
  return tn__print_format(p, "%s_%" PRId64, tn__print_name(p, acc), piece);
}

void tn__lanes_acc(tn__printer *p, tn_node *n) {
  const char *init = tn__print_name(p, n->src[0]), *name = tn__print_give(p, n, 'a', p->nacc++);
  int64_t all = pieces(p, n);
  if (!all) tn__print_line(p, "%s %s = %s;", p->d->value[n->dtype], name, init);
  for (int64_t i = 0; i < all; i++)
    tn__print_line(p, "%s %s = tn_all_%s(%s);", type_of(p, n->dtype), piece_of(p, n, i), type_of(p, n->dtype), init);
}

static void set_lanes(tn__printer *p, tn_node *n) {
  tn_node *value = n->src[1];
  int dtype = n->src[0]->dtype;
  const char *cell = piece_of(p, n->src[0], p->piece), *x;
  bool fused = value->op == OP_LIST;
  const char *factor[3] = {NULL, NULL, cell};
  for (uint32_t i = 0; fused && i < 2; i++) factor[i] = as_kind(p, value->src[i], dtype);
  if (fused) x = apply(p, OP_FMA, dtype, factor);
  else x = apply(p, (int)n->ints[0], dtype, (const char *[]){cell, as_kind(p, value, dtype)});
  if (p->rest && tn__map_getp(&p->combined, n->src[0])) /* else a lane that nobody wants is of no interest */
    x = apply(p, OP_WHERE, dtype, (const char *[]){p->rest, tn__print_format(p, "(%s)", x), cell});
  tn__print_line(p, "%s = %s;", cell, x);
}

void tn__lanes_setacc(tn__printer *p, tn_node *n) {
  if (n->nsrc > 2) set_lanes(p, n);
  else tn__print_setacc(p, n, tn__print_name(p, n->src[0]));
}

static const char *halve(tn__printer *p, int op, int dtype, const char *x, const char *y) {
  const char *name = tn__print_format(p, "h%" PRIu32, p->nvalue++);
  tn__print_line(p, "const %s %s = %s;", type_of(p, dtype), name, apply(p, op, dtype, (const char *[]){x, y}));
  return name;
}

/* All cells combined by halves: whole vectors first, then the lanes of the one that is left. */
static void put_combined(tn__printer *p, tn_node *n, int64_t all) {
  tn_node *acc = n->src[0];
  int op = (int)n->ints[0], dtype = acc->dtype;
  const char **piece = tn__alloc(p->c, (size_t)all * sizeof *piece);
  for (int64_t i = 0; i < all; i++) piece[i] = piece_of(p, acc, i);
  for (int64_t h = all / 2; h; h /= 2)
    for (int64_t i = 0; i < h; i++) piece[i] = halve(p, op, dtype, piece[i], piece[i + h]);
  for (int64_t h = (acc->ints[1] < p->count ? acc->ints[1] : p->count) / 2; h; h /= 2)
    piece[0] = halve(p, op, dtype, piece[0],
                     tn__print_format(p, "tn_across_%s(%s, %" PRId64 ")", type_of(p, dtype), piece[0], h));
  tn__print_value(p, n, tn__print_format(p, dtype == TN_BOOL ? "%s[0] != 0" : "%s[0]", piece[0]));
}

void tn__lanes_getacc(tn__printer *p, tn_node *n) {
  int64_t all = pieces(p, n->src[0]);
  if (!all) tn__print_value(p, n, tn__print_name(p, n->src[0]));
  else if (n->nsrc > 2) declare(p, n, piece_of(p, n->src[0], p->piece));
  else put_combined(p, n, all);
}

/* ---- loops ---- */

static void put_instruction(tn__printer *p, tn_node *n) {
  switch (n->op) {
  case OP_SETACC: tn__lanes_setacc(p, n); break;
  case OP_GETACC: tn__lanes_getacc(p, n); break;
  case OP_STORE:
  case OP_STOREADD: put_store(p, n); break;
  case OP_LOAD:
    if (value_of(p, n)->form == VECTOR) put_load(p, n);
    else tn__print_load(p, n);
    break;
  default:
    if (value_of(p, n)->form == VECTOR && tn__is_elementwise(n)) put_vector(p, n);
    else tn__print_plain(p, n);
  }
}

/* What one vector does; rest: the lanes in which there is something to do, NULL: all */
static void put_turn(tn__printer *p, const vector_loop *l, const char *rest, bool chosen) {
  tn__lanes_forms(p, l->start, l->end);
  p->inside.chosen = chosen;
  p->rest = NULL;
  if (rest) {
    p->rest = tn__print_format(p, "t%" PRIu32, p->nrest++);
    tn__print_line(p, "const boolx%d %s = tn_first_boolx%d(%s);", p->count, p->rest, p->count, rest);
  }
  for (uint32_t i = l->start + 1; i < l->end; i++) {
    tn_node *n = p->part->ins[i];
    bool stands = p->inside.count && tn__inside_counts(p, n);
    if (!stands && !tn__inside_known(p, n)) put_instruction(p, n);
  }
  p->rest = NULL;
  p->inside.chosen = false;
}

/* The body of the loop, up to the brace that closes it; whole: the test for all lanes, NULL: it needs none */
static void put_body(tn__printer *p, const vector_loop *l, const char *rest, const char *whole) {
  uint32_t cases = rest && !whole ? 0 : p->inside.count;
  for (uint32_t i = l->start + 1; i < l->end && p->inside.count; i++)
    if (tn__inside_counts(p, p->part->ins[i])) tn__print_plain(p, p->part->ins[i]);
  for (uint32_t k = 0; k < cases; k++) {
    tn__inside_choose(p, l->start, l->end, k);
    tn__print_line(p, "if (%s%s%s) {", whole ? whole : "", whole ? " && " : "", tn__inside_test(p));
    p->depth++;
    put_turn(p, l, NULL, true);
    tn__print_brace(p, "} else {");
    p->depth++;
  }
  put_turn(p, l, rest, false);
  for (uint32_t k = 0; k < cases; k++) tn__print_brace(p, "}");
  tn__print_brace(p, "}");
}

static void open_brace(tn__printer *p, const char *head) {
  tn__print_line(p, "%s", head);
  p->depth++;
}

/* One vector at a constant place; rest: as above */
static void put_vector_at(tn__printer *p, const vector_loop *l, const char *head, int64_t at, const char *rest) {
  open_brace(p, head);
  tn__print_line(p, "const i64 %s = %" PRId64 ";", tn__print_name(p, p->part->ins[l->start]), at);
  put_body(p, l, rest, NULL);
}

/* The first lanes alone of a vector at a constant place */
static void put_first_at(tn__printer *p, const vector_loop *l, int64_t at, int64_t lanes) {
  p->first = lanes;
  put_vector_at(p, l, "{", at, tn__print_format(p, "%" PRId64, lanes));
  p->first = 0;
}

/* A count that is constant: whole vectors, and what is left of one. */
static void put_constant(tn__printer *p, const vector_loop *l, int64_t n) {
  int64_t whole = n / p->count * p->count;
  const char *i = tn__print_name(p, p->part->ins[l->start]);
  if (whole > p->count) {
    open_brace(p, tn__print_format(p, "for (i64 %s = 0; %s < %" PRId64 "; %s += %d) {", i, i, whole, i, p->count));
    put_body(p, l, NULL, NULL);
  } else if (whole) {
    put_vector_at(p, l, "{", 0, NULL);
  }
  if (n > whole) put_first_at(p, l, whole, n - whole);
}

static void put_counted(tn__printer *p, const vector_loop *l, const char *n) {
  const char *i = tn__print_name(p, p->part->ins[l->start]);
  if (p->inside.count) {
    open_brace(p, tn__print_format(p, "for (i64 %s = 0; %s < %s; %s += %d) {", i, i, n, i, p->count));
    put_body(p, l, tn__print_format(p, "%s - %s", n, i), tn__print_format(p, "%s + %d <= %s", i, p->count, n));
    return;
  }
  tn__print_line(p, "i64 %s = 0;", i);
  open_brace(p, tn__print_format(p, "for (; %s + %d <= %s; %s += %d) {", i, p->count, n, i, p->count));
  put_body(p, l, NULL, NULL);
  open_brace(p, tn__print_format(p, "if (%s < %s) {", i, n));
  put_body(p, l, tn__print_format(p, "%s - %s", n, i), NULL);
}

/* All vectors of accumulators of n cells in use, one after the other, for they are variables of their own */
static void put_pieces(tn__printer *p, const vector_loop *l, int64_t n) {
  for (p->piece = 0; p->piece * p->count < n; p->piece++) {
    int64_t at = p->piece * p->count, left = n - at;
    if (left < p->count) put_first_at(p, l, at, left);
    else put_vector_at(p, l, "{", at, NULL);
  }
}

static void put_short_pieces(tn__printer *p, const vector_loop *l, const char *n, int64_t most) {
  for (p->piece = 0; p->piece * p->count < most; p->piece++) {
    int64_t at = p->piece * p->count;
    put_vector_at(p, l, tn__print_format(p, "if (%" PRId64 " < %s) {", at, n), at,
                  tn__print_format(p, "%s - %" PRId64, n, at));
  }
}

static const vector_loop *loop_at(const tn__printer *p, uint32_t start) {
  uint32_t k = 0;
  while (p->loops.v[k]->start != start) k++;
  return p->loops.v[k];
}

int tn__lanes_count(const tn__printer *p, uint32_t start, uint32_t *end) {
  *end = loop_at(p, start)->end;
  return loop_at(p, start)->count;
}

uint32_t tn__lanes_loop(tn__printer *p, uint32_t at) {
  const vector_loop *l = loop_at(p, at);
  tn_node *r = p->part->ins[at], *extent = r->src[0];
  int64_t n = 0, most = r->hi + 1;
  bool constant = tn__const_int(extent, &n);
  const char *count = tn__print_name(p, extent);
  p->count = l->count;
  tn__lanes_forms(p, l->start, l->end);
  tn__inside_find(p, l->start, l->end);
  tn__print_give(p, r, 'i', p->nloop++);
  if (l->acc && constant) {
    put_pieces(p, l, n);
  } else if (l->acc) {
    open_brace(p, tn__print_format(p, "if (%s == %" PRId64 ") {", count, most));
    put_pieces(p, l, most);
    tn__print_brace(p, "} else {");
    p->depth++;
    put_short_pieces(p, l, count, most);
    tn__print_brace(p, "}");
  } else if (constant && (!p->inside.count || n % p->count == 0)) {
    put_constant(p, l, n);
  } else {
    put_counted(p, l, count);
  }
  p->inside.count = 0;
  tn__map_init(&p->lane, &p->c->scratch);
  return l->end + 1;
}

/* ---- the head ---- */

void tn__lanes_head(tn__printer *p, tn__sb *out) {
  if (!p->counts) return;
  tn__sb_printf(out, "\n#define TN_BYTES %d\n", p->c->vector_bytes);
  tn__sb_puts(out, tn__embed_lanes_c_inc);
  for (int count = 2; count <= 64; count *= 2) {
    if (!(p->counts & (uint32_t)count)) continue;
    put_instance(out, tn__embed_vector_c_inc, count);
    if (p->far & (uint32_t)count) tn__sb_printf(out, "#define TN_FAR_QUADRANTS TN_FAR_%d\n", count);
    if (p->math & (uint32_t)count) put_instance(out, tn__embed_math_inc, count);
    if (p->far & (uint32_t)count) tn__sb_puts(out, "#undef TN_FAR_QUADRANTS\n");
    if (p->math_f64 & (uint32_t)count) put_instance(out, tn__embed_math_f64_inc, count);
  }
  for (uint32_t i = 0; i < p->needs.n; i++) tn__sb_printf(out, "%s\n", p->needs.v[i]);
}
