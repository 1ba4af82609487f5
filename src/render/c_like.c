/* The printer of C-like languages: a linear kernel as functions, one per part.
 *
 * Every value is a constant local v<N>, every loop counter i<N>, every accumulator a<N> (an array if it has lanes), every
 * size variable s<N>, every buffer b<slot>, every local buffer l<number>. */
#include "render/dialect.h"
#include "ir/build.h"
#include <inttypes.h>
#include <stdio.h>

/* Lanes whose count may fall short are printed for the full count and for the short one: around the lane loop itself or, which is
 * much faster, as two loops one after the other (see put_split). */
typedef enum copy { ONCE, FULL_COUNT, SHORT_COUNT } copy;

typedef struct loop {
  uint32_t start; /* index of the RANGE */
  copy copy;
  bool split;
} loop;

typedef struct printer {
  tn_ctx *c;
  tn__sb *out;
  const tn__dialect *d;
  const tn__kernel *k;
  const tn__part *part;
  tn__map name;   /* node -> its text */
  tn__map lanes;  /* RANGE that indexes an accumulator -> the lane count */
  uint32_t nvalue, nloop, nacc;
  int depth;
  copy copy; /* which copy of a split loop is being printed */
  bool left; /* the way out of the full copy is printed */
  tn__vec(loop) open;
} printer;

/* ---- text ---- */

static const char *format_text(printer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *format_text(printer *p, const char *fmt, ...) {
  tn__sb b;
  va_list ap;
  tn__sb_init(&b, &p->c->scratch);
  va_start(ap, fmt);
  tn__sb_vprintf(&b, fmt, ap);
  va_end(ap);
  return tn__sb_str(&b);
}

static const char *name_of(printer *p, tn_node *n) {
  const char *s = tn__map_getp(&p->name, n);
  if (s) return s;
  if (n->op == OP_CONST) {
    tn__sb b;
    tn__sb_init(&b, &p->c->scratch);
    p->d->constant(&b, n->dtype, (uint64_t)n->ints[0]);
    s = tn__sb_str(&b);
  } else {
    tn__fail(p->c, TN_ERUN, "kernel %s uses a %s before it is computed", p->k->name, tn__ops[n->op].text);
  }
  tn__map_putp(&p->name, n, s);
  return s;
}

static const char *give_name(printer *p, tn_node *n, char letter, uint32_t number) {
  const char *s = format_text(p, "%c%" PRIu32, letter, number);
  tn__map_putp(&p->name, n, s);
  return s;
}

static void start_line(printer *p) {
  for (int i = 0; i < p->depth; i++) tn__sb_puts(p->out, "  ");
}

static void put_line(printer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_line(printer *p, const char *fmt, ...) {
  va_list ap;
  start_line(p);
  va_start(ap, fmt);
  tn__sb_vprintf(p->out, fmt, ap);
  va_end(ap);
  tn__sb_putc(p->out, '\n');
}

/* The dtype in the names of helpers. */
static const char *dtype_text(int dtype) { return tn__dtypes[dtype == TN__INDEX ? TN_I64 : dtype].name; }

/* Fills a template; an empty one is its first operand. */
static const char *fill(printer *p, const char *spelling, int dtype, int sdtype, const char *const *operand) {
  tn__sb b;
  if (!spelling) return operand[0];
  tn__sb_init(&b, &p->c->scratch);
  for (const char *s = spelling; *s; s++) {
    if (*s != '$') {
      tn__sb_putc(&b, *s);
      continue;
    }
    s++;
    if (*s == 't') tn__sb_puts(&b, p->d->value[dtype]);
    else if (*s == 'u') tn__sb_puts(&b, p->d->wrap[dtype]);
    else if (*s == 'n') tn__sb_puts(&b, dtype_text(sdtype));
    else tn__sb_puts(&b, operand[*s - '0']);
  }
  return tn__sb_str(&b);
}

static const char *fill_one(printer *p, const char *spelling, int dtype, const char *operand) {
  return fill(p, spelling, dtype, dtype, &operand);
}

/* ---- expressions ---- */

static int column_of(int dtype) {
  if (dtype == TN__INDEX) return SP_INDEX;
  if (dtype == TN_BOOL) return SP_BOOL;
  if (!tn__is_float(dtype)) return SP_INT;
  return dtype == TN_F64 ? SP_F64 : SP_F32;
}

/* The dtype in which values of a dtype are computed. */
static int value_dtype(int dtype) { return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype; }

/* An op over operands' texts. */
static const char *apply(printer *p, int op, int dtype, int sdtype, const char *const *operand) {
  static const char *const call[] = {NULL, "tn_%s_%s($0)", "tn_%s_%s($0, $1)", "tn_%s_%s($0, $1, $2)"};
  bool exact = op == OP_WHERE || op == OP_NEG || op == OP_ABS || op == OP_MIN || op == OP_MAX; /* in f16 as in f32 */
  bool own = op == OP_FMA; /* rounds once: f16 and bf16 have helpers of their own */
  int compute = own ? sdtype : value_dtype(sdtype);
  const char *spelling = p->d->op[op][column_of(compute)];
  if (!spelling && sdtype == TN_BOOL) return format_text(p, "(%s) != 0", apply(p, op, TN_U8, TN_U8, operand)); /* as eval: arithmetic on 0 and 1 */
  char helper[64];
  if (!spelling) {
    snprintf(helper, sizeof helper, call[tn__ops[op].min_src], tn__ops[op].text, dtype_text(compute));
    spelling = helper;
  }
  const char *s = fill(p, spelling, value_dtype(dtype), compute, operand);
  return exact || own ? s : fill_one(p, p->d->round[dtype], dtype, s);
}

static const char *cast_text(printer *p, int from, int to, const char *x) {
  int wide = value_dtype(from);
  if (from == to) return x;
  if (to == TN_BOOL) return format_text(p, "%s != 0", x);
  if (tn__is_float(from) && !tn__is_float(to)) return format_text(p, "tn_%s_to_%s(%s)", dtype_text(wide), dtype_text(to), x);
  bool exact = wide == TN_F32 || from == TN_BOOL || tn__size_of(from) <= 2; /* as an f32 */
  if (p->d->round[to] && !exact) /* by way of f32 it would round twice */
    return format_text(p, "tn_%s_to_%s(%s)", dtype_text(from), dtype_text(to), x);
  return fill_one(p, p->d->round[to], to, format_text(p, "(%s)%s", p->d->value[to], x));
}

static const char *bitcast_text(printer *p, int from, int to, const char *x) {
  const char *bits = fill_one(p, p->d->to_bits[from], from, x);
  if (p->d->of_bits[to]) return fill_one(p, p->d->of_bits[to], to, bits);
  return format_text(p, "(%s)%s", p->d->value[to], bits);
}

static const char *scalar_text(printer *p, tn_node *n) {
  const char *operand[3] = {0};
  for (uint32_t i = 0; i < n->nsrc; i++) operand[i] = name_of(p, n->src[i]);
  if (n->op == OP_CAST) return cast_text(p, n->src[0]->dtype, n->dtype, operand[0]);
  if (n->op == OP_BITCAST) return bitcast_text(p, n->src[0]->dtype, n->dtype, operand[0]);
  if (n->dtype == TN__INDEX && (n->op == OP_IDIV || n->op == OP_MOD) && n->src[0]->lo >= 0 && n->src[1]->lo > 0)
    return fill(p, n->op == OP_MOD ? p->d->mod_nonneg : p->d->idiv_nonneg, n->dtype, n->dtype, operand);
  return apply(p, n->op, n->dtype, n->src[n->op == OP_WHERE ? 1 : 0]->dtype, operand);
}

static void put_value(printer *p, tn_node *n, const char *text) {
  const char *name = give_name(p, n, 'v', p->nvalue++);
  put_line(p, "const %s %s = %s;", p->d->value[n->dtype], name, text);
}

/* ---- memory ---- */

static const char *element(printer *p, tn_node *n) {
  tn_node *buf = n->src[0];
  return format_text(p, "%c%" PRId64 "[%s]", buf->op == OP_LOCAL ? 'l' : 'b', buf->ints[0], name_of(p, n->src[1]));
}

static void put_load(printer *p, tn_node *n) {
  const char *x = fill_one(p, p->d->load[n->dtype], n->dtype, element(p, n));
  if (n->nsrc > 2) x = format_text(p, "%s ? %s : 0", name_of(p, n->src[2]), x);
  put_value(p, n, x);
}

static void put_store(printer *p, tn_node *n) {
  int dt = n->src[0]->dtype;
  const char *at = element(p, n), *x = name_of(p, n->src[2]);
  if (n->op == OP_STOREADD) x = apply(p, OP_ADD, dt, dt, (const char *[]){fill_one(p, p->d->load[dt], dt, at), x});
  const char *gate = n->nsrc > 3 ? format_text(p, "if (%s) ", name_of(p, n->src[3])) : "";
  put_line(p, "%s%s = %s;", gate, at, fill_one(p, p->d->store[dt], dt, x));
}

/* ---- accumulators ---- */

static const char *cell(printer *p, tn_node *n) {
  const char *acc = name_of(p, n->src[0]);
  return n->nsrc > 2 ? format_text(p, "%s[%s]", acc, name_of(p, n->src[2])) : acc;
}

static void put_acc(printer *p, tn_node *n) {
  const char *init = name_of(p, n->src[0]), *name = give_name(p, n, 'a', p->nacc++), *type = p->d->value[n->dtype];
  if (n->ints[1] == 1) {
    put_line(p, "%s %s = %s;", type, name, init);
    return;
  }
  put_line(p, "%s %s[%" PRId64 "];", type, name, n->ints[1]);
  put_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s;", n->ints[1], name, init);
}

static void put_setacc(printer *p, tn_node *n) {
  tn_node *value = n->src[1];
  int dt = n->src[0]->dtype, op = (int)n->ints[0];
  const char *at = cell(p, n), *text;
  if (value->op == OP_LIST) text = apply(p, OP_FMA, dt, dt, (const char *[]){name_of(p, value->src[0]), name_of(p, value->src[1]), at});
  else text = apply(p, op, dt, dt, (const char *[]){at, name_of(p, value)});
  put_line(p, "%s = %s;", at, text);
}

/* The value of an accumulator; all lanes combined by halves, in an array of their own, for the cells may be read again. */
static void put_getacc(printer *p, tn_node *n) {
  tn_node *acc = n->src[0];
  int64_t lanes = acc->ints[1];
  if (n->nsrc > 2 || lanes == 1) {
    put_value(p, n, cell(p, n));
    return;
  }
  int dt = acc->dtype, op = (int)n->ints[0];
  const char *from = name_of(p, acc), *half = format_text(p, "h%s", from);
  put_line(p, "%s %s[%" PRId64 "];", p->d->value[dt], half, lanes / 2);
  for (int64_t h = lanes / 2; h; h /= 2, from = half)
    put_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s;", h, half,
             apply(p, op, dt, dt, (const char *[]){format_text(p, "%s[l]", from), format_text(p, "%s[l + %" PRId64 "]", from, h)}));
  put_value(p, n, format_text(p, "%s[0]", half));
}

/* ---- loops ---- */

/* Does the loop that starts at ins[start] hold no other? */
static bool is_innermost(const printer *p, uint32_t start) {
  uint32_t i = start + 1;
  while (i < p->part->n && p->part->ins[i]->op != OP_RANGE && p->part->ins[i]->op != OP_END) i++;
  return i < p->part->n && p->part->ins[i]->op == OP_END;
}

static void put_independent(printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  bool global = r->ints[0] == AX_GLOBAL; /* its iterations are independent, too, unless they share the scratch */
  if (r->ints[0] == AX_UPCAST || (global && !p->k->nlocal && is_innermost(p, start))) put_line(p, "%s", p->d->independent);
}

static void put_for(printer *p, uint32_t start, const char *from, const char *to) {
  const char *i = name_of(p, p->part->ins[start]);
  put_independent(p, start);
  put_line(p, "for (%s %s = %s; %s < %s; %s++) {", p->d->index, i, from, i, to, i);
  p->depth++;
}

static void put_brace(printer *p, const char *brace) {
  p->depth--;
  put_line(p, "%s", brace);
}

/* The lane count of a range whose count may fall short; 0 for others. */
static uint64_t short_lanes(const printer *p, const tn_node *n) {
  uint64_t lanes = 0;
  if (n->op == OP_RANGE && n->ints[0] != AX_GLOBAL && !tn__is_const(n->src[0])) tn__map_get(&p->lanes, (uintptr_t)n, &lanes);
  return lanes;
}

/* May the loop that starts at ins[start] be split?  It holds no loops but lanes, all of one count, and has no effect before them. */
static bool is_splittable(const printer *p, uint32_t start) {
  tn_node *first = NULL;
  for (uint32_t i = start + 1, depth = 1; i < p->part->n; i++) {
    tn_node *n = p->part->ins[i];
    if (n->op == OP_RANGE) {
      if (depth == 2 || !short_lanes(p, n)) return false;
      if (first && (n->src[0] != first->src[0] || short_lanes(p, n) != short_lanes(p, first))) return false;
      first = n;
      depth++;
    } else if (n->op == OP_END) {
      if (--depth == 0) return first != NULL;
    } else if (!first && n->op != OP_LOAD && !tn__is_elementwise(n)) {
      return false;
    }
  }
  return false;
}

/* Copies the lane accumulators that the loop sets into arrays of their own, or back.  The full copy of the loop then indexes them by
 * constants only, once its lanes are unrolled, so that compilers keep them in vector registers. */
static void swap_accs(printer *p, uint32_t start, bool back) {
  for (uint32_t i = start + 1; p->part->ins[i]->op != OP_END || p->part->ins[i]->src[0] != p->part->ins[start]; i++) {
    tn_node *n = p->part->ins[i], *acc = n->src[0];
    if (n->op != OP_SETACC || n->nsrc < 3) continue;
    const char *name = name_of(p, acc), *other = back ? name + 1 : format_text(p, "t%s", name);
    if ((*name == 't') != back) continue; /* done */
    if (!back) put_line(p, "%s %s[%" PRId64 "];", p->d->value[acc->dtype], other, acc->ints[1]);
    put_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s[l];", acc->ints[1], other, name);
    tn__map_putp(&p->name, acc, other);
  }
}

/* for (; i < n; i++) { ... if (count != lanes) break; full ... }
 * if (i < n) { copies; for (; i < n; i++) { short } back } */
static void put_split(printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  const char *i = name_of(p, r), *n = name_of(p, r->src[0]);
  if (p->copy == ONCE) {
    put_line(p, "%s %s = 0;", p->d->index, i);
    p->copy = FULL_COUNT;
    p->left = false;
  } else {
    put_brace(p, "}");
    put_line(p, "if (%s < %s) {", i, n);
    p->depth++;
    swap_accs(p, start, false);
    p->copy = SHORT_COUNT;
  }
  put_line(p, "for (; %s < %s; %s++) {", i, n, i);
  p->depth++;
}

static void put_lanes(printer *p, uint32_t start, uint64_t lanes, loop *o) {
  const char *count = name_of(p, p->part->ins[start]->src[0]), *full = format_text(p, "%" PRIu64, lanes);
  if (p->copy == ONCE) {
    o->copy = FULL_COUNT;
    put_line(p, "if (%s == %s) {", count, full);
    p->depth++;
  } else if (p->copy == FULL_COUNT && !p->left) {
    p->left = true;
    put_line(p, "if (%s != %s) break;", count, full);
  }
  put_for(p, start, "0", p->copy == SHORT_COUNT ? count : full);
}

static void open_range(printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  uint64_t lanes = short_lanes(p, r);
  loop o = {.start = start, .copy = ONCE, .split = !lanes && r->ints[0] != AX_GLOBAL && is_splittable(p, start)};
  give_name(p, r, 'i', p->nloop++);
  if (lanes) put_lanes(p, start, lanes, &o);
  else if (o.split) put_split(p, start);
  else if (r->ints[0] == AX_GLOBAL) put_for(p, start, "lo", "hi");
  else put_for(p, start, "0", name_of(p, r->src[0]));
  tn__vec_push(&p->c->scratch, &p->open, o);
}

/* Closes a loop; the index of the instruction to go on with. */
static uint32_t close_range(printer *p, uint32_t at) {
  if (!p->open.n) tn__fail(p->c, TN_ERUN, "kernel %s closes a loop that is not open", p->k->name);
  loop *o = &p->open.v[p->open.n - 1];
  if (o->split && p->copy == FULL_COUNT) {
    put_split(p, o->start);
    return o->start + 1;
  }
  if (o->copy == FULL_COUNT) {
    o->copy = SHORT_COUNT;
    put_brace(p, "}");
    put_brace(p, "} else {");
    p->depth++;
    put_for(p, o->start, "0", name_of(p, p->part->ins[o->start]->src[0]));
    return o->start + 1;
  }
  put_brace(p, "}");
  if (o->split) {
    swap_accs(p, o->start, true);
    p->copy = ONCE;
  }
  if (o->split || o->copy == SHORT_COUNT) put_brace(p, "}");
  p->open.n--;
  return at + 1;
}

/* ---- a part ---- */

static uint32_t put_instruction(printer *p, uint32_t at) {
  tn_node *n = p->part->ins[at];
  switch (n->op) {
  case OP_RANGE: open_range(p, at); break;
  case OP_END: return close_range(p, at);
  case OP_ACC: put_acc(p, n); break;
  case OP_SETACC: put_setacc(p, n); break;
  case OP_GETACC: put_getacc(p, n); break;
  case OP_LOAD: put_load(p, n); break;
  case OP_STORE: case OP_STOREADD: put_store(p, n); break;
  case OP_IF:
    put_line(p, "if (%s) {", name_of(p, n->src[0]));
    p->depth++;
    break;
  case OP_ENDIF: put_brace(p, "}"); break;
  default:
    if (!tn__is_elementwise(n)) tn__fail(p->c, TN_ERUN, "kernel %s: %s cannot stand in a kernel", p->k->name, tn__ops[n->op].text);
    put_value(p, n, scalar_text(p, n));
  }
  return at + 1;
}

static void name_variables(printer *p) {
  tn__map_init(&p->name, &p->c->scratch);
  for (uint32_t v = 0; v < p->k->nvar; v++) give_name(p, p->k->var[v], 's', v);
}

/* What the part touches, declared once at the top. */
static void put_declarations(printer *p) {
  tn__map used;
  bool *used_buf = tn__arena_zalloc(&p->c->scratch, p->k->nbuf + 1);
  tn__map_init(&used, &p->c->scratch);
  for (uint32_t i = 0; i < p->part->n; i++) {
    tn_node *n = p->part->ins[i];
    for (uint32_t s = 0; s < n->nsrc && n != p->part->global; s++) tn__map_put(&used, (uintptr_t)n->src[s], 1);
    if (n->op == OP_SETACC && n->nsrc > 2) tn__map_put(&p->lanes, (uintptr_t)n->src[2], (uint64_t)n->src[0]->ints[1]);
    if (n->nsrc && n->src[0]->op == OP_PARAM) used_buf[n->src[0]->ints[0]] = true;
  }
  for (uint32_t b = 0; b < p->k->nbuf; b++)
    if (used_buf[b])
      put_line(p, "%s%s *restrict b%" PRIu32 " = buf[%" PRIu32 "];", p->k->buf_written[b] ? "" : "const ", p->d->cell[p->k->buf_dtype[b]], b, b);
  for (uint32_t l = 0; l < p->k->nlocal; l++)
    if (tn__map_get(&used, (uintptr_t)p->k->local[l], NULL))
      put_line(p, "%s *l%" PRId64 " = (%s *)(scratch + %" PRId64 ");", p->d->cell[p->k->local[l]->dtype], p->k->local[l]->ints[0],
               p->d->cell[p->k->local[l]->dtype], p->k->local_at[l]);
  for (uint32_t v = 0; v < p->k->nvar; v++)
    if (tn__map_get(&used, (uintptr_t)p->k->var[v], NULL)) put_line(p, "const %s s%" PRIu32 " = var[%" PRIu32 "];", p->d->index, v, v);
}

static void put_part(printer *p, uint32_t number) {
  p->part = &p->k->part[number];
  p->nvalue = p->nloop = p->nacc = p->open.n = 0;
  p->copy = ONCE;
  tn__map_init(&p->lanes, &p->c->scratch);
  name_variables(p);
  put_line(p, "\n%s %s_%" PRIu32 "%s {", p->d->function[0], p->k->name, number, p->d->function[1]);
  p->depth = 1;
  put_declarations(p);
  for (uint32_t at = 0; at < p->part->n;) at = put_instruction(p, at);
  if (p->open.n) tn__fail(p->c, TN_ERUN, "kernel %s leaves a loop open", p->k->name);
  put_brace(p, "}");
}

/* The extent of the part's global range, 1 if it has none. */
static void put_extent(printer *p, uint32_t number) {
  tn_node *global = p->k->part[number].global, *extent = global ? global->src[0] : tn__int(p->c, 1);
  tn__nodes nodes = {0};
  p->nvalue = 0;
  name_variables(p);
  tn__topo(&p->c->scratch, &extent, 1, &nodes);
  put_line(p, "\n%s %s_%" PRIu32 "_extent%s {", p->d->extent[0], p->k->name, number, p->d->extent[1]);
  p->depth = 1;
  for (uint32_t i = 0; i < nodes.n; i++) {
    tn_node *n = nodes.v[i];
    for (uint32_t v = 0; n->op == OP_VAR && v < p->k->nvar; v++)
      if (p->k->var[v] == n) put_line(p, "const %s s%" PRIu32 " = var[%" PRIu32 "];", p->d->index, v, v);
    if (n->nsrc) put_value(p, n, scalar_text(p, n));
  }
  put_line(p, "return %s;", name_of(p, extent));
  put_brace(p, "}");
}

void tn__render_unit(tn_ctx *c, tn__sb *out, const tn__dialect *d, tn__kernel *const *kernels, uint32_t n) {
  printer p = {.c = c, .out = out, .d = d};
  for (uint32_t i = 0; d->head[i]; i++) tn__sb_puts(out, d->head[i]);
  for (uint32_t i = 0; i < n; i++) {
    p.k = kernels[i];
    if (p.k->note) tn__sb_printf(out, "\n/* %s */", p.k->note);
    for (uint32_t part = 0; part < p.k->nparts; part++) {
      put_part(&p, part);
      put_extent(&p, part);
    }
  }
}
