/* A part as a function over a slice of its global range: lanes are vector loops.  For C. */
#include "render/c_like.h"
#include "ir/build.h"
#include <inttypes.h>

/* ---- accumulators ---- */

static const char *cell(tn__printer *p, tn_node *n) {
  const char *acc = tn__print_name(p, n->src[0]);
  return n->nsrc > 2 ? tn__print_format(p, "%s[%s]", acc, tn__print_name(p, n->src[2])) : acc;
}

static void put_acc(tn__printer *p, tn_node *n) {
  const char *init = tn__print_name(p, n->src[0]), *name = tn__print_give(p, n, 'a', p->nacc++),
             *type = p->d->value[n->dtype];
  if (n->ints[1] == 1) {
    tn__print_line(p, "%s %s = %s;", type, name, init);
    return;
  }
  tn__print_line(p, "%s %s[%" PRId64 "];", type, name, n->ints[1]);
  tn__print_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s;", n->ints[1], name, init);
}

/* The value of an accumulator; all lanes combined by halves, in an array of their own, for the cells may be read again.
 */
static void put_getacc(tn__printer *p, tn_node *n) {
  tn_node *acc = n->src[0];
  int64_t lanes = acc->ints[1];
  if (n->nsrc > 2 || lanes == 1) {
    tn__print_value(p, n, cell(p, n));
    return;
  }
  const char *name = tn__print_name(p, acc), *half = tn__print_format(p, "h%s", name);
  tn__print_line(p, "%s %s[%" PRId64 "];", p->d->value[acc->dtype], half, lanes / 2);
  tn__print_halves(p, (int)n->ints[0], acc->dtype, name, half, lanes);
  tn__print_value(p, n, tn__print_format(p, "%s[0]", half));
}

/* ---- loops ---- */

/* Does the loop that starts at ins[start] hold no other? */
static bool is_innermost(const tn__printer *p, uint32_t start) {
  uint32_t i = start + 1;
  while (i < p->part->n && p->part->ins[i]->op != OP_RANGE && p->part->ins[i]->op != OP_END) i++;
  return i < p->part->n && p->part->ins[i]->op == OP_END;
}

static void put_independent(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  bool global = r->ints[0] == AX_GLOBAL; /* its iterations are independent, too, unless they share the scratch */
  if (r->ints[0] == AX_UPCAST || (global && !p->k->nlocal && is_innermost(p, start)))
    tn__print_line(p, "%s", p->d->independent);
}

static void put_for(tn__printer *p, uint32_t start, const char *from, const char *to) {
  const char *i = tn__print_name(p, p->part->ins[start]);
  put_independent(p, start);
  tn__print_line(p, "for (i64 %s = %s; %s < %s; %s++) {", i, from, i, to, i);
  p->depth++;
}

/* The lane count of a range whose count may fall short; 0 for others. */
static uint64_t short_lanes(const tn__printer *p, const tn_node *n) {
  uint64_t lanes = 0;
  if (n->op == OP_RANGE && n->ints[0] != AX_GLOBAL && !tn__is_const(n->src[0]))
    tn__map_get(&p->lanes, (uintptr_t)n, &lanes);
  return lanes;
}

/* May the loop that starts at ins[start] be split?  It holds no loops but lanes, all of one count, and has no effect
 * before them. */
static bool is_splittable(const tn__printer *p, uint32_t start) {
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

/* Copies the lane accumulators that the loop sets into arrays of their own, or back.  The full copy of the loop then
 * indexes them by constants only, once its lanes are unrolled, so that compilers keep them in vector registers. */
static void swap_accs(tn__printer *p, uint32_t start, bool back) {
  for (uint32_t i = start + 1; p->part->ins[i]->op != OP_END || p->part->ins[i]->src[0] != p->part->ins[start]; i++) {
    tn_node *n = p->part->ins[i], *acc = n->src[0];
    if (n->op != OP_SETACC || n->nsrc < 3) continue;
    const char *name = tn__print_name(p, acc), *other = back ? name + 1 : tn__print_format(p, "t%s", name);
    if ((*name == 't') != back) continue; /* done */
    if (!back) tn__print_line(p, "%s %s[%" PRId64 "];", p->d->value[acc->dtype], other, acc->ints[1]);
    tn__print_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s[l];", acc->ints[1], other, name);
    tn__map_putp(&p->name, acc, other);
  }
}

/* for (; i < n; i++) { ... if (count != lanes) break; full ... }
 * if (i < n) { copies; for (; i < n; i++) { short } back } */
static void put_split(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  const char *i = tn__print_name(p, r), *n = tn__print_name(p, r->src[0]);
  if (p->copy == ONCE) {
    tn__print_line(p, "i64 %s = 0;", i);
    p->copy = FULL_COUNT;
    p->left = false;
  } else {
    tn__print_brace(p, "}");
    tn__print_line(p, "if (%s < %s) {", i, n);
    p->depth++;
    swap_accs(p, start, false);
    p->copy = SHORT_COUNT;
  }
  tn__print_line(p, "for (; %s < %s; %s++) {", i, n, i);
  p->depth++;
}

static void put_lanes(tn__printer *p, uint32_t start, uint64_t lanes, tn__open_loop *o) {
  const char *count = tn__print_name(p, p->part->ins[start]->src[0]), *full = tn__print_format(p, "%" PRIu64, lanes);
  if (p->copy == ONCE) {
    o->copy = FULL_COUNT;
    tn__print_line(p, "if (%s == %s) {", count, full);
    p->depth++;
  } else if (p->copy == FULL_COUNT && !p->left) {
    p->left = true;
    tn__print_line(p, "if (%s != %s) break;", count, full);
  }
  put_for(p, start, "0", p->copy == SHORT_COUNT ? count : full);
}

static void open_range(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  uint64_t lanes = short_lanes(p, r);
  tn__open_loop o = {
      .start = start, .copy = ONCE, .split = !lanes && r->ints[0] != AX_GLOBAL && is_splittable(p, start)};
  tn__print_give(p, r, 'i', p->nloop++);
  if (lanes) put_lanes(p, start, lanes, &o);
  else if (o.split) put_split(p, start);
  else if (r->ints[0] == AX_GLOBAL) put_for(p, start, "lo", "hi");
  else put_for(p, start, "0", tn__print_name(p, r->src[0]));
  tn__vec_push(&p->c->scratch, &p->open, o);
}

/* Closes a loop; the index of the instruction to go on with. */
static uint32_t close_range(tn__printer *p, uint32_t at) {
  if (!p->open.n) tn__fail(p->c, TN_ERUN, "kernel %s closes a loop that is not open", p->k->name);
  tn__open_loop *o = &p->open.v[p->open.n - 1];
  if (o->split && p->copy == FULL_COUNT) {
    put_split(p, o->start);
    return o->start + 1;
  }
  if (o->copy == FULL_COUNT) {
    o->copy = SHORT_COUNT;
    tn__print_brace(p, "}");
    tn__print_brace(p, "} else {");
    p->depth++;
    put_for(p, o->start, "0", tn__print_name(p, p->part->ins[o->start]->src[0]));
    return o->start + 1;
  }
  tn__print_brace(p, "}");
  if (o->split) {
    swap_accs(p, o->start, true);
    p->copy = ONCE;
  }
  if (o->split || o->copy == SHORT_COUNT) tn__print_brace(p, "}");
  p->open.n--;
  return at + 1;
}

/* ---- a part ---- */

static uint32_t put_instruction(tn__printer *p, uint32_t at) {
  tn_node *n = p->part->ins[at];
  switch (n->op) {
  case OP_RANGE: open_range(p, at); break;
  case OP_END: return close_range(p, at);
  case OP_ACC: put_acc(p, n); break;
  case OP_SETACC: tn__print_setacc(p, n, cell(p, n)); break;
  case OP_GETACC: put_getacc(p, n); break;
  case OP_LOAD: tn__print_load(p, n); break;
  case OP_STORE:
  case OP_STOREADD:
    tn__print_store(p, n, n->nsrc > 3 ? tn__print_name(p, n->src[3]) : NULL, tn__print_element(p, n));
    break;
  default: tn__print_plain(p, n);
  }
  return at + 1;
}

static void name_variables(tn__printer *p) {
  tn__map_init(&p->name, &p->c->scratch);
  for (uint32_t v = 0; v < p->k->nvar; v++) tn__print_give(p, p->k->var[v], 's', v);
}

/* What the part touches, declared once at the top. */
static void put_declarations(tn__printer *p) {
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
      tn__print_line(p, "%s%s *restrict b%" PRIu32 " = buf[%" PRIu32 "];", p->k->buf_written[b] ? "" : "const ",
                     p->d->cell[p->k->buf_dtype[b]], b, b);
  for (uint32_t l = 0; l < p->k->nlocal; l++)
    if (tn__map_get(&used, (uintptr_t)p->k->local[l], NULL))
      tn__print_line(p, "%s *l%" PRId64 " = (%s *)(scratch + %" PRId64 ");", p->d->cell[p->k->local[l]->dtype],
                     p->k->local[l]->ints[0], p->d->cell[p->k->local[l]->dtype], p->k->local_at[l]);
  for (uint32_t v = 0; v < p->k->nvar; v++)
    if (tn__map_get(&used, (uintptr_t)p->k->var[v], NULL))
      tn__print_line(p, "const i64 s%" PRIu32 " = var[%" PRIu32 "];", v, v);
}

static void put_part(tn__printer *p, uint32_t number) {
  p->copy = ONCE;
  tn__map_init(&p->lanes, &p->c->scratch);
  name_variables(p);
  tn__print_line(p, "\n%s %s_%" PRIu32 "%s {", p->d->function[0], p->k->name, number, p->d->function[1]);
  p->depth = 1;
  put_declarations(p);
  for (uint32_t at = 0; at < p->part->n;) at = put_instruction(p, at);
  tn__print_brace(p, "}");
}

/* The extent of the part's global range, 1 if it has none. */
static void put_extent(tn__printer *p, uint32_t number) {
  tn_node *global = p->part->global, *extent = global ? global->src[0] : tn__int(p->c, 1);
  tn__nodes nodes = {0};
  p->nvalue = 0;
  name_variables(p);
  tn__topo(&p->c->scratch, &extent, 1, &nodes);
  tn__print_line(p, "\n%s %s_%" PRIu32 "_extent%s {", p->d->extent[0], p->k->name, number, p->d->extent[1]);
  p->depth = 1;
  for (uint32_t i = 0; i < nodes.n; i++)
    for (uint32_t v = 0; v < p->k->nvar; v++)
      if (p->k->var[v] == nodes.v[i]) tn__print_line(p, "const i64 s%" PRIu32 " = var[%" PRIu32 "];", v, v);
  tn__print_deep(p, extent);
  tn__print_line(p, "return %s;", tn__print_name(p, extent));
  tn__print_brace(p, "}");
}

void tn__print_slices(tn__printer *p, uint32_t number) {
  if (p->part->group)
    tn__fail(p->c, TN_ERUN, "kernel %s is for work groups, which %s does not have", p->k->name, p->d->name);
  put_part(p, number);
  put_extent(p, number);
}
