/* Vectors in C, lane by lane: a value of n lanes stands in n registers.  What the extensions of gcc and clang say:
 * integers are not promoted, comparisons give 0 and -1 in lanes as wide, casts keep the bits; and the helpers of
 * vectors, by name. */
#include "verify/c_reader.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static tn__c_type vector_of(int dtype, uint32_t lanes) {
  tn__c_type t = plain(dtype);
  t.lanes = (uint8_t)lanes;
  return t;
}

static ex new_vector(reader *r, int dtype, uint32_t lanes) {
  return in_reg(vector_of(dtype, lanes), tn__c_cells(r, lanes));
}

void tn__c_lanes_move(reader *r, uint32_t to, ex x) {
  for (uint32_t l = 0; l < (x.type.lanes && !x.type.stars ? x.type.lanes : 1u); l++)
    tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = to + l, .a = x.reg + l});
}

ex tn__c_spread(reader *r, ex x, tn__c_type to) {
  uint32_t from = tn__c_converted(r, x, plain(to.dtype));
  ex out = new_vector(r, to.dtype, to.lanes);
  for (uint32_t l = 0; l < to.lanes; l++)
    tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = out.reg + l, .a = from});
  return out;
}

static int mask_dtype(int dtype) {
  static const uint8_t of[] = {[1] = TN_I8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  return of[tn__size_of(dtype)];
}

ex tn__c_lanes_arithmetic(reader *r, int op, ex x, ex y) {
  tn__c_value(r, &x), tn__c_value(r, &y);
  if (!x.type.lanes) x = tn__c_spread(r, x, y.type);
  if (!y.type.lanes) y = tn__c_spread(r, y, x.type);
  if (x.type.stars || y.type.stars || x.type.lanes != y.type.lanes || x.type.dtype != y.type.dtype)
    tn__c_refuse(r, "vectors of different types");
  bool compares = op >= TN__C_LT && op <= TN__C_NE, bits = op == TN__C_REM || (op >= TN__C_AND && op <= TN__C_SHR);
  if (tn__is_float(x.type.dtype) && (bits || op == TN__C_NOT)) tn__c_refuse(r, "bits of a float");
  ex out = new_vector(r, compares ? mask_dtype(x.type.dtype) : x.type.dtype, x.type.lanes);
  for (uint32_t l = 0; l < x.type.lanes; l++)
    tn__c_put(r, (tn__c_ins){.code = TN__C_ARITH,
                             .op = (uint8_t)op,
                             .dtype = x.type.dtype,
                             .dst = out.reg + l,
                             .a = x.reg + l,
                             .b = y.reg + l,
                             .n = 1});
  return out;
}

static ex each(reader *r, ex x, int dtype, tn__c_ins i) {
  ex out = new_vector(r, dtype, x.type.lanes);
  for (uint32_t l = 0; l < x.type.lanes; l++) {
    i.dst = out.reg + l, i.a = x.reg + l;
    tn__c_put(r, i);
  }
  return out;
}

static ex convert_lanes(reader *r, ex x, int dtype) {
  if (x.type.dtype == dtype) return x;
  return each(r, x, dtype,
              (tn__c_ins){.code = TN__C_CONVERT, .dtype = (uint8_t)dtype, .sdtype = x.type.dtype});
}

ex tn__c_lanes_cast(reader *r, ex x, tn__c_type to) {
  tn__c_value(r, &x);
  if (x.type.lanes != to.lanes || x.type.stars || tn__size_of(x.type.dtype) != tn__size_of(to.dtype))
    tn__c_refuse(r, "a cast to lanes of another size");
  bool from_float = tn__is_float(x.type.dtype), to_float = tn__is_float(to.dtype);
  if (from_float == to_float) return convert_lanes(r, x, to.dtype);
  if (to_float) return each(r, x, to.dtype, (tn__c_ins){.code = TN__C_OF_BITS, .dtype = to.dtype});
  static const uint8_t raw[] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64}; /* bits are read as unsigned */
  ex bits = each(r, x, raw[tn__size_of(to.dtype)], (tn__c_ins){.code = TN__C_BITS, .dtype = x.type.dtype});
  return convert_lanes(r, bits, to.dtype);
}

/* ---- helpers ---- */

enum { CALL_ARGS = 6 };
typedef struct call {
  reader *r;
  const char *name; /* without its lanes */
  int dtype;        /* that its name ends in; -1: none */
  int sdtype;       /* ... and in front of that, for a conversion */
  uint32_t lanes, narg;
  ex arg[CALL_ARGS];
} call;

static ex argument(call *k, uint32_t i, int dtype) { /* a vector; dtype: -1: any */
  ex x = k->arg[i];
  tn__c_value(k->r, &x);
  if (i >= k->narg || x.type.lanes != k->lanes || x.type.stars || (dtype >= 0 && x.type.dtype != dtype))
    tn__c_refuse(k->r, "a vector of another type");
  return x;
}

static uint32_t scalar(call *k, uint32_t i, int dtype) {
  if (i >= k->narg) tn__c_refuse(k->r, "too few arguments");
  return tn__c_converted(k->r, k->arg[i], plain(dtype));
}

static uint32_t number(reader *r, int64_t v) { return tn__c_constant(r, tn__exact_int((uint64_t)v)); }

static void put_arith(reader *r, int op, int dtype, uint32_t dst, uint32_t a, uint32_t b) {
  tn__c_ins i = {.code = TN__C_ARITH, .op = (uint8_t)op, .dtype = (uint8_t)dtype, .dst = dst, .a = a, .b = b, .n = 1};
  tn__c_put(r, i);
}

static ex call_all(call *k) {
  if (k->dtype != TN_BOOL) return tn__c_spread(k->r, k->arg[0], vector_of(k->dtype, k->lanes));
  uint32_t from = scalar(k, 0, TN_BOOL), wide = tn__c_cells(k->r, 1), all = tn__c_cells(k->r, 1);
  tn__c_put(k->r, (tn__c_ins){.code = TN__C_CONVERT, .dst = wide, .a = from, .dtype = TN_I8, .sdtype = TN_BOOL});
  put_arith(k->r, TN__C_NEG, TN_I8, all, wide, wide);
  return tn__c_spread(k->r, in_reg(plain(TN_I8), all), vector_of(TN_I8, k->lanes));
}

static ex call_first(call *k) {
  uint32_t n = scalar(k, 0, TN_I64);
  ex out = new_vector(k->r, TN_I8, k->lanes);
  tn__c_put(k->r, (tn__c_ins){.code = TN__C_SOME, .a = n});
  for (uint32_t l = 0; l < k->lanes; l++) put_arith(k->r, TN__C_LT, TN_I64, out.reg + l, number(k->r, l), n);
  return out;
}

static ex call_step(call *k) {
  uint32_t x = scalar(k, 0, k->dtype), by = scalar(k, 1, k->dtype);
  ex out = new_vector(k->r, k->dtype, k->lanes);
  for (uint32_t l = 0; l < k->lanes; l++) {
    put_arith(k->r, TN__C_MUL, k->dtype, out.reg + l, number(k->r, l), by);
    put_arith(k->r, TN__C_ADD, k->dtype, out.reg + l, x, out.reg + l);
  }
  return out;
}

/* The place that lies so many elements behind a pointer */
static uint32_t place_behind(call *k, uint32_t pointer, uint32_t reg) {
  uint32_t place = tn__c_cells(k->r, 1);
  tn__c_put(k->r, (tn__c_ins){
                      .code = TN__C_PLACE, .dst = place, .a = pointer, .b = reg, .n = (int64_t)tn__size_of(k->dtype)});
  return place;
}

static uint32_t pointer(call *k, uint32_t i) {
  ex p = k->arg[i];
  tn__c_value(k->r, &p);
  if (i >= k->narg || p.type.stars != 1 || p.type.dtype != k->dtype) tn__c_refuse(k->r, "a pointer to another type");
  return p.reg;
}

/* Loads and stores: at neighbours, or at indices; of the lanes of a mask. */
static ex access_lanes(call *k, bool stores, bool indexed, bool masked) {
  reader *r = k->r;
  uint32_t at = 1, p = pointer(k, 0);
  ex out = new_vector(r, k->dtype, k->lanes), index = {0}, value = {0}, mask = {0};
  if (indexed) index = argument(k, at++, -1);
  if (stores) value = argument(k, at++, k->dtype);
  if (masked) mask = argument(k, at++, TN_I8);
  if (at != k->narg) tn__c_refuse(r, "another number of arguments");
  for (uint32_t l = 0; l < k->lanes; l++) {
    uint32_t skip = 0;
    if (masked) {
      if (!stores)
        tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE,
                                 .dst = out.reg + l,
                                 .a = tn__c_constant(r, tn__is_float(k->dtype) ? tn__exact_const(k->dtype, 0)
                                                                               : tn__exact_int(0))});
      skip = tn__c_put(r, (tn__c_ins){.code = TN__C_UNLESS, .a = mask.reg + l});
    }
    uint32_t place = place_behind(k, p, indexed ? index.reg + l : number(r, l));
    if (stores)
      tn__c_put(r, (tn__c_ins){.code = TN__C_STORE, .a = place, .c = value.reg + l, .dtype = (uint8_t)k->dtype});
    else tn__c_put(r, (tn__c_ins){.code = TN__C_LOAD, .dst = out.reg + l, .a = place, .dtype = (uint8_t)k->dtype});
    if (masked) r->ins.v[skip].n = r->ins.n;
  }
  return out;
}

/* What follows is done if v < n: where it has to be said up to where. */
static uint32_t put_if_below(reader *r, uint32_t v, uint32_t n) {
  uint32_t is = tn__c_cells(r, 1);
  put_arith(r, TN__C_LT, TN_I64, is, number(r, v), n);
  return tn__c_put(r, (tn__c_ins){.code = TN__C_UNLESS, .a = is});
}

/* p[step l] in the first n lanes, in the others p[0]: what lies between these is there, since both ends are. */
static ex first_apart(call *k, uint32_t step, uint32_t n) {
  ex index = new_vector(k->r, TN_I64, k->lanes);
  tn__c_put(k->r, (tn__c_ins){.code = TN__C_SOME, .a = n});
  for (uint32_t l = 0; l < k->lanes; l++) {
    tn__c_put(k->r, (tn__c_ins){.code = TN__C_MOVE, .dst = index.reg + l, .a = number(k->r, 0)});
    uint32_t beyond = put_if_below(k->r, l, n);
    put_arith(k->r, TN__C_MUL, TN_I64, index.reg + l, number(k->r, l), step);
    k->r->ins.v[beyond].n = k->r->ins.n;
  }
  k->arg[1] = index;
  k->narg = 2;
  return access_lanes(k, false, true, false);
}

static ex call_apart(call *k) {
  if (k->narg != 3) tn__c_refuse(k->r, "another number of arguments");
  return first_apart(k, scalar(k, 1, TN_I64), scalar(k, 2, TN_I64));
}

static ex call_back(call *k) {
  if (k->narg != 2) tn__c_refuse(k->r, "another number of arguments");
  return first_apart(k, number(k->r, -1), scalar(k, 1, TN_I64));
}

/* Cells that are s apart are a load at indices. */
static ex call_spaced(call *k) {
  ex index = new_vector(k->r, TN_I64, k->lanes);
  uint32_t step = scalar(k, 1, TN_I64);
  for (uint32_t l = 0; l < k->lanes; l++) put_arith(k->r, TN__C_MUL, TN_I64, index.reg + l, number(k->r, l), step);
  k->arg[1] = index;
  return access_lanes(k, false, true, true);
}

/* Integers that are stored as wider ones */
static ex store_wide(call *k, bool masked) {
  ex value = argument(k, 1, k->dtype);
  if (k->dtype != TN_I32) tn__c_refuse(k->r, "a store of other numbers");
  k->arg[1] = convert_lanes(k->r, value, TN_I64);
  k->dtype = TN_I64;
  return access_lanes(k, true, false, masked);
}

static ex call_store_wide(call *k) { return store_wide(k, false); }
static ex call_store_wide_if(call *k) { return store_wide(k, true); }
static ex call_load(call *k) { return access_lanes(k, false, false, false); }
static ex call_load_if(call *k) { return access_lanes(k, false, false, true); }
static ex call_store(call *k) { return access_lanes(k, true, false, false); }
static ex call_store_if(call *k) { return access_lanes(k, true, false, true); }
static ex call_gather(call *k) { return access_lanes(k, false, true, true); }
static ex call_scatter(call *k) { return access_lanes(k, true, true, true); }

/* Masks are 0 and -1 in each lane, so that bits are chosen together. */
static ex call_where(call *k) {
  ex c = argument(k, 0, -1), a = argument(k, 1, k->dtype), b = argument(k, 2, k->dtype);
  ex out = new_vector(k->r, k->dtype, k->lanes);
  if (tn__is_float(c.type.dtype)) tn__c_refuse(k->r, "a mask of floats");
  for (uint32_t l = 0; l < k->lanes; l++) {
    tn__c_put(k->r, (tn__c_ins){.code = TN__C_MOVE, .dst = out.reg + l, .a = a.reg + l});
    uint32_t skip = tn__c_put(k->r, (tn__c_ins){.code = TN__C_IF, .a = c.reg + l});
    tn__c_put(k->r, (tn__c_ins){.code = TN__C_MOVE, .dst = out.reg + l, .a = b.reg + l});
    k->r->ins.v[skip].n = k->r->ins.n;
  }
  return out;
}

static ex call_of_bool(call *k) {
  ex m = argument(k, 0, TN_I8);
  return convert_lanes(k->r, tn__c_lanes_arithmetic(k->r, TN__C_NEG, m, m), k->dtype);
}

static ex call_bool(call *k) { return convert_lanes(k->r, argument(k, 0, -1), TN_I8); }
static ex call_cast(call *k) { return convert_lanes(k->r, argument(k, 0, k->sdtype), k->dtype); }

static ex call_across(call *k) {
  ex x = argument(k, 0, k->dtype == TN_BOOL ? TN_I8 : k->dtype), out = new_vector(k->r, x.type.dtype, k->lanes);
  const tn__exact *h = &k->r->reg.v[scalar(k, 1, TN_I32)];
  if (h->kind != TN__EXACT_INT) tn__c_refuse(k->r, "a distance that is not a number");
  if ((uint64_t)h->v >= k->lanes) tn__c_refuse(k->r, "a distance beyond the lanes");
  for (uint32_t l = 0; l < k->lanes; l++)
    tn__c_put(k->r, (tn__c_ins){.code = TN__C_MOVE, .dst = out.reg + l, .a = x.reg + (l ^ (uint32_t)h->v)});
  return out;
}

/* v * step + add */
static uint32_t put_line(reader *r, uint32_t v, uint32_t step, uint32_t add) {
  uint32_t line = tn__c_cells(r, 1), at = tn__c_cells(r, 1);
  put_arith(r, TN__C_MUL, TN_I64, line, number(r, v), step);
  put_arith(r, TN__C_ADD, TN_I64, at, line, number(r, add));
  return at;
}

/* to[b q + a] = from[a p + b] for a < n, b < m, up to as many as there are lanes */
static ex turned(call *k, uint32_t to, uint32_t q, uint32_t from, uint32_t p, uint32_t n, uint32_t m) {
  reader *r = k->r;
  uint32_t value = tn__c_cells(r, 1);
  for (uint32_t a = 0; a < k->lanes; a++) {
    uint32_t line = put_if_below(r, a, n);
    for (uint32_t b = 0; b < k->lanes; b++) {
      uint32_t element = put_if_below(r, b, m);
      uint32_t load = place_behind(k, from, put_line(r, a, p, b)), store = place_behind(k, to, put_line(r, b, q, a));
      tn__c_put(r, (tn__c_ins){.code = TN__C_LOAD, .dst = value, .a = load, .dtype = (uint8_t)k->dtype});
      tn__c_put(r, (tn__c_ins){.code = TN__C_STORE, .a = store, .c = value, .dtype = (uint8_t)k->dtype});
      r->ins.v[element].n = r->ins.n;
    }
    r->ins.v[line].n = r->ins.n;
  }
  r->turns = true;
  return new_vector(r, k->dtype, k->lanes);
}

static ex call_turn(call *k) {
  if (k->narg != CALL_ARGS) tn__c_refuse(k->r, "another number of arguments");
  uint32_t to = pointer(k, 0), q = scalar(k, 1, TN_I64), from = pointer(k, 2), p = scalar(k, 3, TN_I64),
           n = scalar(k, 4, TN_I64), m = scalar(k, 5, TN_I64);
  return turned(k, to, q, from, p, n, m);
}

static ex call_weave(call *k) {
  if (k->narg != CALL_ARGS - 1) tn__c_refuse(k->r, "another number of arguments");
  uint32_t to = pointer(k, 0), from = pointer(k, 1), p = scalar(k, 2, TN_I64), n = scalar(k, 3, TN_I64),
           m = scalar(k, 4, TN_I64);
  return turned(k, to, n, from, p, n, m);
}

/* Refuses what differs in any of these bits: there is no such element of one. */
static void put_alike(reader *r, uint32_t x, uint32_t y, uint64_t bits) {
  uint32_t differ = tn__c_cells(r, 1), kept = tn__c_cells(r, 1);
  put_arith(r, TN__C_XOR, TN_U64, differ, x, y);
  put_arith(r, TN__C_AND, TN_U64, kept, differ, number(r, (int64_t)bits));
  tn__c_put(r, (tn__c_ins){.code = TN__C_GET_CELL, .dst = tn__c_cells(r, 1), .a = differ, .b = kept, .n = 1});
}

/* Philox of lanes each four of which have one block, and all of which have one key and one counter */
static ex call_blocks(call *k) {
  const uint64_t block = ~(uint64_t)3, all = UINT64_MAX;
  ex v[3], out = new_vector(k->r, TN_U32, k->lanes);
  for (uint32_t i = 0; i < 3; i++) v[i] = argument(k, i, TN_U64);
  for (uint32_t l = 0; l < k->lanes; l++) {
    put_alike(k->r, v[0].reg + l, v[0].reg + (l & ~3u), block);
    for (uint32_t i = 1; i < 3; i++) put_alike(k->r, v[i].reg + l, v[i].reg, all);
    tn__c_put(k->r, (tn__c_ins){.code = TN__C_EVAL,
                                .op = OP_PHILOX,
                                .dtype = TN_U32,
                                .sdtype = TN_U64,
                                .dst = out.reg + l,
                                .a = v[0].reg + l,
                                .b = v[1].reg + l,
                                .c = v[2].reg + l});
  }
  return out;
}

static const struct {
  const char *name; /* up to the dtype */
  ex (*make)(call *k);
} helpers[] = {
    {"tn_philox_in_blocks_", call_blocks},
    {"tn_all_", call_all},         {"tn_first_", call_first},     {"tn_step_", call_step},
    {"tn_store_wide_if_", call_store_wide_if},
    {"tn_store_wide_", call_store_wide},
    {"tn_load_if_", call_load_if}, {"tn_load_", call_load},       {"tn_store_if_", call_store_if},
    {"tn_store_", call_store},     {"tn_gather_far_", call_gather}, {"tn_gather_", call_gather},
    {"tn_spaced_", call_spaced},   {"tn_apart_", call_apart},     {"tn_back_", call_back},
    {"tn_scatter_far_", call_scatter}, {"tn_scatter_", call_scatter},
    {"tn_pick_", call_where},      {"tn_where_", call_where},     {"tn_of_bool_", call_of_bool},
    {"tn_cast_", call_cast},       {"tn_across_", call_across},   {"tn_turn_", call_turn},
    {"tn_weave_", call_weave},
    {"tn_", call_bool},
};

/* A function of scalars, in each lane. */
static bool call_scalar(call *k, size_t n, ex *out) {
  tn__c_call x;
  ex v[3];
  if (!tn__c_word_is_call(k->name, n, &x)) return false;
  int held = x.sdtype == TN_F16 || x.sdtype == TN_BF16 ? TN_F32 : x.sdtype;
  if (k->narg != x.narg) tn__c_refuse(k->r, "another number of arguments");
  for (uint32_t i = 0; i < x.narg; i++) v[i] = argument(k, i, held);
  *out = new_vector(k->r, x.result, k->lanes);
  for (uint32_t l = 0; l < k->lanes; l++)
    tn__c_put(k->r, (tn__c_ins){.code = x.code,
                                .op = x.op,
                                .dtype = x.dtype,
                                .sdtype = x.sdtype,
                                .n = x.near,
                                .dst = out->reg + l,
                                .a = v[0].reg + l,
                                .b = x.narg > 1 ? v[1].reg + l : 0,
                                .c = x.narg > 2 ? v[2].reg + l : 0});
  return true;
}

/* The name without the lanes behind its dtypes; their number, 0: it has none. */
static uint32_t without_lanes(const char *s, size_t n, char *out, size_t *kept) {
  uint32_t lanes = 0;
  *kept = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i;
    tn__c_type t;
    while (end < n && s[end] != '_') end++;
    bool vector = tn__c_word_is_type(s + i, end - i, &t) && t.lanes;
    for (size_t j = i; j < end && !(vector && s[j] == 'x'); j++) out[(*kept)++] = s[j];
    if (vector) lanes = t.lanes;
    if (end < n) out[(*kept)++] = '_';
    i = end + 1;
  }
  out[*kept] = 0;
  return lanes;
}

bool tn__c_lanes_call(reader *r, const char *s, size_t n, ex *out) {
  char name[64];
  size_t kept;
  call k = {.r = r, .name = name, .dtype = -1};
  if (n >= sizeof name || !(k.lanes = without_lanes(s, n, name, &kept))) return false;
  r->vectors = true;
  r->at++;
  k.narg = tn__c_arguments(r, k.arg, CALL_ARGS);
  if (call_scalar(&k, kept, out)) return true;
  for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
    size_t m = strlen(helpers[i].name);
    if (strncmp(name, helpers[i].name, m)) continue;
    if (helpers[i].make == call_cast) {
      size_t from = strcspn(name + m, "_");
      k.sdtype = tn__dtype_parse(name + m, from);
      m += from + (name[m + from] == '_');
      if (k.sdtype < 0) continue;
    }
    k.dtype = tn__dtype_parse(name + m, kept - m);
    if (k.dtype < 0 || (helpers[i].make == call_bool && k.dtype != TN_BOOL)) continue;
    *out = helpers[i].make(&k);
    return true;
  }
  tn__c_refuse(r, "an unknown function of vectors");
}
