/* The printer of C-like languages: names, expressions, memory, and the unit.  Parts are printed by slices.c and
 * groups.c. */
#include "lower/lower.h"
#include "render/lanes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

const char *tn__print_format(tn__printer *p, const char *fmt, ...) {
  tn__sb b;
  va_list ap;
  tn__sb_init(&b, &p->c->scratch);
  va_start(ap, fmt);
  tn__sb_vprintf(&b, fmt, ap);
  va_end(ap);
  return tn__sb_str(&b);
}

void tn__print_line(tn__printer *p, const char *fmt, ...) {
  va_list ap;
  for (int i = 0; i < p->depth; i++) tn__sb_puts(p->out, "  ");
  va_start(ap, fmt);
  tn__sb_vprintf(p->out, fmt, ap);
  va_end(ap);
  tn__sb_putc(p->out, '\n');
}

void tn__print_brace(tn__printer *p, const char *brace) {
  p->depth--;
  tn__print_line(p, "%s", brace);
}

const char *tn__print_expand(tn__printer *p, const char *spelling, const tn__words *w) {
  tn__sb b;
  tn__sb_init(&b, &p->c->scratch);
  for (const char *s = spelling; *s; s++) {
    if (*s == '$') tn__sb_puts(&b, w->word[(unsigned char)*++s]);
    else tn__sb_putc(&b, *s);
  }
  return tn__sb_str(&b);
}

static void put_float(tn__sb *out, double v, const char *suffix, const char *infinity) {
  const char *sign = __builtin_signbit(v) ? "-" : "";
  if (__builtin_isinf(v)) tn__sb_printf(out, "(%s%s)", sign, infinity);
  else tn__sb_printf(out, *sign ? "(%a%s)" : "%a%s", v, suffix);
}

static void put_integer(tn__sb *out, int dtype, uint64_t bits) {
  int64_t v = (int64_t)bits;
  if (dtype == TN_U64) tn__sb_printf(out, "%" PRIu64 "ul", bits);
  else if (dtype == TN_U32) tn__sb_printf(out, "%" PRIu64 "u", bits);
  else if (v == INT64_MIN) tn__sb_puts(out, "(-9223372036854775807l - 1)");
  else if (v == INT32_MIN && dtype != TN_I64) tn__sb_puts(out, "(-2147483647 - 1)");
  else
    tn__sb_printf(out,
                  dtype == TN_I64 || dtype == TN__INDEX ? (v < 0 ? "(%" PRId64 "l)" : "%" PRId64 "l")
                                                        : (v < 0 ? "(%" PRId64 ")" : "%" PRId64),
                  v);
}

void tn__render_constant(tn__sb *out, const tn__dialect *d, int dtype, uint64_t bits) {
  float f;
  double wide;
  uint32_t low = (uint32_t)bits;
  memcpy(&f, &low, sizeof f);
  memcpy(&wide, &bits, sizeof wide);
  switch (dtype) {
  case TN_F16:
  case TN_BF16: tn__sb_printf(out, "tn_%s_of(0x%" PRIx32 ")", dtype == TN_F16 ? "f16" : "bf16", low); break;
  case TN_F32:
    if (f != f) tn__sb_printf(out, "tn_f32_of(0x%" PRIx32 "u)", low);
    else put_float(out, (double)f, "f", d->infinity);
    break;
  case TN_F64:
    if (wide != wide) tn__sb_printf(out, "tn_f64_of(0x%" PRIx64 "ul)", bits);
    else put_float(out, wide, "", d->infinity);
    break;
  default: put_integer(out, dtype, bits);
  }
}

/* ---- names ---- */

/* a choice: no is right */
static bool fits_32(int64_t lo, int64_t hi) { return lo >= INT32_MIN && hi <= INT32_MAX; }

/* The counter of a range goes one step beyond; that of groups as far again. */
int tn__print_kind(const tn__printer *p, const tn_node *n) {
  if (n->dtype != TN__INDEX || !p->d->value[TN__INDEX32]) return n->dtype;
  int64_t hi = n->op != OP_RANGE || n->hi == INT64_MAX            ? n->hi
               : n->ints[0] == AX_GLOBAL && n->hi < INT64_MAX / 2 ? 2 * n->hi + 2
                                                                  : n->hi + 1;
  return fits_32(n->lo, hi) ? TN__INDEX32 : TN__INDEX;
}

const char *tn__print_name(tn__printer *p, tn_node *n) {
  const char *s = tn__map_getp(&p->name, n);
  if (s) return s;
  if (n->op != OP_CONST)
    tn__fail(p->c, TN_ERUN, "kernel %s uses a %s before it is computed", p->k->name, tn__ops[n->op].text);
  tn__sb b;
  tn__sb_init(&b, &p->c->scratch);
  tn__render_constant(&b, p->d, tn__print_kind(p, n), (uint64_t)n->ints[0]);
  s = tn__sb_str(&b);
  tn__map_putp(&p->name, n, s);
  return s;
}

const char *tn__print_give(tn__printer *p, tn_node *n, char letter, uint32_t number) {
  const char *s = tn__print_format(p, "%c%" PRIu32, letter, number);
  if (tn__dtype_parse(s, strlen(s)) >= 0) s = tn__print_format(p, "%s_", s); /* i8, i16, ... are types */
  tn__map_putp(&p->name, n, s);
  return s;
}

/* ---- expressions ---- */

/* The dtype in the names of helpers. */
static const char *dtype_text(int kind) {
  return tn__dtypes[kind == TN__INDEX ? TN_I64 : kind == TN__INDEX32 ? TN_I32 : kind].name;
}

/* Fills a template; an empty one is its first operand. */
static const char *fill(tn__printer *p, const char *spelling, int kind, int skind, const char *const *operand) {
  if (!spelling) return operand[0];
  tn__words w = {.word = {['t'] = p->d->value[kind], ['u'] = p->d->wrap[kind], ['n'] = dtype_text(skind)}};
  for (int i = 0; i < 3 && (i == 0 || operand[i - 1]); i++) w.word['0' + i] = operand[i];
  return tn__print_expand(p, spelling, &w);
}

static const char *fill_one(tn__printer *p, const char *spelling, int kind, const char *operand) {
  return fill(p, spelling, kind, kind, (const char *[]){operand, NULL, NULL});
}

static int column_of(int kind) {
  if (kind == TN__INDEX || kind == TN__INDEX32) return SP_INDEX;
  if (kind == TN_BOOL) return SP_BOOL;
  if (!tn__is_float(kind)) return SP_INT;
  return kind == TN_F64 ? SP_F64 : SP_F32;
}

/* The kind in which values of a kind are computed. */
static int value_kind(int kind) { return kind == TN_F16 || kind == TN_BF16 ? TN_F32 : kind; }

/* An op over operands' texts; *rounds: the result is yet to be rounded. */
static const char *exact_text(tn__printer *p, int op, int kind, int skind, const char *const *operand, bool *rounds) {
  static const char *const call[] = {NULL, "tn_%s_%s($0)", "tn_%s_%s($0, $1)", "tn_%s_%s($0, $1, $2)"};
  bool own = op == OP_FMA; /* rounds once: f16 and bf16 have helpers of their own */
  int compute = own ? skind : value_kind(skind);
  const char *spelling = p->d->op[op][column_of(compute)];
  *rounds = tn__ops[op].rounding != RN_EXACT && !own && p->d->round[kind];
  if (!spelling && skind == TN_BOOL) /* as eval: arithmetic on 0 and 1 */
    return tn__print_format(p, "(%s) != 0", exact_text(p, op, TN_U8, TN_U8, operand, rounds));
  char helper[64];
  if (!spelling) {
    snprintf(helper, sizeof helper, call[tn__ops[op].min_src], tn__ops[op].text, dtype_text(compute));
    spelling = helper;
  }
  const char *all[3] = {0};
  for (uint32_t i = 0; i < tn__ops[op].min_src; i++) all[i] = operand[i];
  return fill(p, spelling, value_kind(kind), compute, all);
}

static const char *rounded(tn__printer *p, int kind, const char *x, bool rounds) {
  return rounds ? fill_one(p, p->d->round[kind], kind, x) : x;
}

const char *tn__print_apply(tn__printer *p, int op, int kind, int skind, const char *const *operand) {
  bool rounds;
  const char *x = exact_text(p, op, kind, skind, operand, &rounds);
  return rounded(p, kind, x, rounds);
}

static const char *cast_text(tn__printer *p, int from, int to, const char *x, bool *rounds) {
  int wide = value_kind(from);
  if (from == TN__INDEX32) from = wide = TN_I32;
  if (from == to) return x;
  if (to == TN_BOOL) return tn__print_format(p, "%s != 0", x);
  if (to != TN__INDEX32 && tn__is_float(from) && !tn__is_float(to))
    return tn__print_format(p, "tn_%s_to_%s(%s)", dtype_text(wide), dtype_text(to), x);
  bool exact = wide == TN_F32 || from == TN_BOOL || tn__size_of(from) <= 2; /* as an f32 */
  if (p->d->round[to] && !exact) /* by way of f32 it would round twice */
    return tn__print_format(p, "tn_%s_to_%s(%s)", dtype_text(from), dtype_text(to), x);
  *rounds = p->d->round[to];
  return tn__print_format(p, "(%s)%s", p->d->value[to], x);
}

static const char *bitcast_text(tn__printer *p, int from, int to, const char *x) {
  const char *bits = fill_one(p, p->d->to_bits[from], from, x);
  if (p->d->of_bits[to]) return fill_one(p, p->d->of_bits[to], to, bits);
  return tn__print_format(p, "(%s)%s", p->d->value[to], bits);
}

/* The kind in which an op on index values is computed: narrow if all of them and the result are. */
static int index_kind(const tn__printer *p, const tn_node *n) {
  for (uint32_t i = n->op == OP_WHERE; i < n->nsrc; i++)
    if (tn__print_kind(p, n->src[i]) == TN__INDEX) return TN__INDEX;
  return n->dtype == TN__INDEX ? tn__print_kind(p, n) : TN__INDEX32;
}

static const char *scalar_text(tn__printer *p, tn_node *n, bool *rounds) {
  const char *operand[3] = {0};
  uint32_t first = n->op == OP_WHERE;
  for (uint32_t i = 0; i < n->nsrc; i++) operand[i] = tn__print_name(p, n->src[i]);
  int kind = tn__print_kind(p, n), skind = tn__print_kind(p, n->src[first]);
  *rounds = false;
  if (n->op == OP_CAST) return cast_text(p, skind, kind, operand[0], rounds);
  if (n->op == OP_BITCAST) return bitcast_text(p, skind, kind, operand[0]);
  if (tn__print_is_approximate(p, n) && p->d->approximate[n->op]) {
    *rounds = p->d->round[kind];
    return fill(p, p->d->approximate[n->op], value_kind(kind), value_kind(skind), operand);
  }
  if (n->op == OP_DIV && kind == TN_F16 && p->d->quotient) {
    *rounds = p->d->round[kind];
    return fill(p, p->d->quotient, value_kind(kind), value_kind(skind), operand);
  }
  if (p->d->over_root && tn__is_over_root(n))
    return fill(p, p->d->over_root, value_kind(kind), value_kind(skind), operand);
  if (n->src[first]->dtype != TN__INDEX) return exact_text(p, n->op, kind, skind, operand, rounds);
  int compute = index_kind(p, n);
  for (uint32_t i = first; compute == TN__INDEX && i < n->nsrc; i++)
    if (tn__print_kind(p, n->src[i]) != TN__INDEX)
      operand[i] = tn__print_format(p, "(%s)%s", p->d->value[TN__INDEX], operand[i]);
  const char *division = n->op == OP_MOD ? p->d->mod_nonneg : n->op == OP_IDIV ? p->d->idiv_nonneg : NULL, *s;
  if (division && n->src[0]->lo >= 0 && n->src[1]->lo > 0) s = fill(p, division, compute, compute, operand);
  else s = tn__print_apply(p, n->op, n->dtype == TN__INDEX ? compute : kind, compute, operand);
  return kind == TN__INDEX32 && compute == TN__INDEX ? tn__print_format(p, "(%s)(%s)", p->d->value[kind], s) : s;
}

void tn__print_value(tn__printer *p, tn_node *n, const char *text) {
  const char *name = tn__print_give(p, n, 'v', p->nvalue++);
  tn__print_line(p, "const %s %s = %s;", p->d->value[tn__print_kind(p, n)], name, text);
}

/* A value that is stored need not be rounded for that, only for its other users: x<N> is what v<N> was before. */
static void put_scalar(tn__printer *p, tn_node *n) {
  bool rounds;
  const char *x = scalar_text(p, n, &rounds);
  uint64_t stored;
  if (rounds && tn__map_get(&p->stored, (uintptr_t)n, &stored)) {
    const char *exact = tn__print_format(p, "x%" PRIu32, p->nvalue);
    tn__print_line(p, "const %s %s = %s;", p->d->value[n->dtype], exact, x);
    tn__map_putp(&p->stored, n, exact);
    x = exact;
  }
  tn__print_value(p, n, rounded(p, n->dtype, x, rounds));
}

void tn__print_deep(tn__printer *p, tn_node *n) {
  tn__nodes nodes = {0};
  if (tn__map_getp(&p->name, n)) return;
  tn__topo(&p->c->scratch, &n, 1, &nodes);
  for (uint32_t i = 0; i < nodes.n; i++)
    if (tn__is_elementwise(nodes.v[i]) && !tn__map_getp(&p->name, nodes.v[i])) put_scalar(p, nodes.v[i]);
}

void tn__print_plain(tn__printer *p, tn_node *n) {
  switch (n->op) {
  default:
    if (!tn__is_elementwise(n))
      tn__fail(p->c, TN_ERUN, "kernel %s: %s cannot stand in a kernel", p->k->name, tn__ops[n->op].text);
    put_scalar(p, n);
  }
}

/* ---- memory ---- */

const char *tn__print_element(tn__printer *p, tn_node *n) {
  tn_node *buf = n->src[0];
  return tn__print_format(p, "%c%" PRId64 "[%s]", buf->op == OP_LOCAL ? 'l' : 'b', buf->ints[0],
                          tn__print_name(p, n->src[1]));
}

const char *tn__print_loaded(tn__printer *p, tn_node *n, const char *element) {
  const char *x = fill_one(p, p->d->load[n->dtype], n->dtype, element);
  return n->nsrc > 2 ? tn__print_format(p, "%s ? %s : 0", tn__print_name(p, n->src[2]), x) : x;
}

void tn__print_load(tn__printer *p, tn_node *n) {
  tn__print_value(p, n, tn__print_loaded(p, n, tn__print_element(p, n)));
}

const char *tn__print_addend(tn__printer *p, tn_node *n) {
  bool rounds = false;
  if (!tn__is_counted(n->src[0]->dtype, n->src[2]->dtype)) return tn__print_name(p, n->src[2]);
  return cast_text(p, TN_F32, TN_I64, tn__print_name(p, n->src[2]), &rounds);
}

const char *tn__print_combined(tn__printer *p, int by, int dtype, const char *element, const char *x) {
  const char *sum =
      tn__print_apply(p, by, dtype, dtype, (const char *[]){fill_one(p, p->d->load[dtype], dtype, element), x});
  return fill_one(p, p->d->store[dtype], dtype, sum);
}

void tn__print_store(tn__printer *p, tn_node *n, const char *gate, const char *element) {
  int dt = n->src[0]->dtype;
  const char *exact = n->op == OP_STORE ? tn__map_getp(&p->stored, n->src[2]) : NULL,
             *bits = n->op == OP_STORE && n->src[2]->dtype == dt ? tn__map_getp(&p->bits, n->src[2]) : NULL,
             *x = bits ? bits : exact ? exact : tn__print_name(p, n->src[2]);
  if (n->op == OP_STOREADD)
    x = tn__print_combined(p, tn__combines_by(n), dt, element, tn__print_addend(p, n));
  else if (!bits) x = fill_one(p, p->d->store[dt], dt, x);
  tn__print_line(p, "%s%s = %s;", gate ? tn__print_format(p, "if (%s) ", gate) : "", element, x);
}

/* ---- accumulators ---- */

void tn__print_setacc(tn__printer *p, tn_node *n, const char *cell) {
  tn_node *value = n->src[1];
  int dt = n->src[0]->dtype, op = (int)n->ints[0];
  const char *text;
  if (value->op == OP_LIST)
    text = tn__print_apply(p, OP_FMA, dt, dt,
                           (const char *[]){tn__print_name(p, value->src[0]), tn__print_name(p, value->src[1]), cell});
  else text = tn__print_apply(p, op, dt, dt, (const char *[]){cell, tn__print_name(p, value)});
  tn__print_line(p, "%s = %s;", cell, text);
}

void tn__print_halves(tn__printer *p, int op, int dt, const char *from, const char *into, int64_t lanes) {
  for (int64_t h = lanes / 2; h; h /= 2, from = into)
    tn__print_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s;", h, into,
                   tn__print_apply(p, op, dt, dt,
                                   (const char *[]){tn__print_format(p, "%s[l]", from),
                                                    tn__print_format(p, "%s[l + %" PRId64 "]", from, h)}));
}

/* ---- the unit ---- */

static void check_dtype(const tn__printer *p, int dtype) {
  if (dtype < TN_DTYPE_COUNT && !p->d->cell[dtype])
    tn__fail(p->c, TN_ENOTSUP, "kernel %s uses %s, which %s does not have", p->k->name, tn__dtypes[dtype].name,
             p->d->name);
}

static void check_dtypes(const tn__printer *p) {
  for (uint32_t b = 0; b < p->k->nbuf; b++) check_dtype(p, p->k->buf_dtype[b]);
  for (uint32_t part = 0; part < p->k->nparts; part++)
    for (uint32_t i = 0; i < p->k->part[part].n; i++) check_dtype(p, p->k->part[part].ins[i]->dtype);
}

/* The values that are stored as they are. */
static void find_stored(tn__printer *p) {
  tn__map_init(&p->stored, &p->c->scratch);
  for (uint32_t i = 0; i < p->part->n; i++)
    if (p->part->ins[i]->op == OP_STORE) tn__map_put(&p->stored, (uintptr_t)p->part->ins[i]->src[2], 0);
}

void tn__print_begin(tn__printer *p, uint32_t part) {
  p->part = &p->k->part[part];
  p->nvalue = p->nloop = p->nacc = p->nrest = p->open.n = 0;
  tn__map_init(&p->name, &p->c->scratch);
  find_stored(p);
  tn__map_init(&p->bits, &p->c->scratch);
  tn__map_init(&p->approximate, &p->c->scratch);
  if (p->c->mode != TN_MODE_STRICT && p->d->approximate) tn__find_near(&p->c->scratch, p->part, &p->approximate);
}

bool tn__print_is_approximate(const tn__printer *p, const tn_node *n) {
  return tn__map_get(&p->approximate, (uintptr_t)n, NULL);
}

void tn__render_unit(tn_ctx *c, tn__sb *out, const tn__dialect *d, tn__kernel *const *kernels, uint32_t n) {
  tn__sb text; /* behind the helpers, which follow from it */
  tn__printer p = {.c = c, .out = &text, .d = d};
  tn__sb_init(&text, &c->scratch);
  for (uint32_t i = 0; d->head[i]; i++) tn__sb_puts(out, d->head[i]);
  bool tiles = false;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t part = 0; part < kernels[i]->nparts; part++) tiles |= kernels[i]->part[part].tile != NULL;
  if (tiles && d->group && d->group->tiles) tn__sb_puts(out, d->group->tiles);
  for (uint32_t i = 0; i < n; i++) {
    p.k = kernels[i];
    check_dtypes(&p);
    if (p.k->note) tn__sb_printf(p.out, "\n/* %s */", p.k->note);
    for (uint32_t part = 0, end; part < p.k->nparts; part = end) {
      end = d->group ? tn__launch_end(p.k, part) : part + 1;
      tn__print_begin(&p, part);
      if (d->group) tn__print_group(&p, part, end);
      else tn__print_slices(&p, part);
      if (p.open.n) tn__fail(c, TN_ERUN, "kernel %s leaves a loop open", p.k->name);
    }
  }
  if (p.turns && d->head[0]) tn__sb_puts(out, d->group->turns);
  if (d->head[0]) tn__lanes_head(&p, out);
  tn__sb_puts(out, tn__sb_str(&text));
}
