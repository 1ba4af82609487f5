/* A part as a function over a slice of its global range.  For C.
 *
 * What is printed.  Declarations of buffers, locals and sizes; then, as often as they come,
 *   const TYPE v<N> = EXPRESSION;              a value, used from there on in the block
 *   TYPE a<N> = EXPRESSION;  a<N> = EXPRESSION;   an accumulator
 *   b<N>[v<N>] = EXPRESSION;  if (v<N>) ...;   a store, and one with a gate
 *   for (i64 i<N> = FROM; i<N> < TO; i<N>++) { ... }   from lo to hi the global range; #pragma GCC unroll TURNS before
 *                                                      those of few turns that have reductions in lanes, or only store
 * and vector loops (lanes.c), whose extent n is the sum of what follows.  Without accumulators
 *   for (i64 i = 0; i < WHOLE; i += V) { ... }      constant n; one vector alone: { const i64 i = 0; ... }
 *   { const i64 i = WHOLE; const boolxV t<N> = tn_first_boolxV(REST); ... }
 * or, n being a value,
 *   i64 i = 0;  for (; i + V <= n; i += V) { ... }  if (i < n) { const boolxV t<N> = tn_first_boolxV(n - i); ... }
 * With accumulators, which are vectors a<N>_0, a<N>_1, ... of V cells each, all vectors one after the other:
 *   if (n == MOST) { { const i64 i = 0; ... } { const i64 i = V; ... } ... }
 *   else { if (0 < n) { const i64 i = 0; const boolxV t<N> = tn_first_boolxV(n - 0); ... } if (V < n) { ... } ... }
 * Where there is a t<N>, nothing is stored in the lanes in which it is false, nor accumulated where lanes are combined.
 * Where counters are compared in a vector loop, and nearly all vectors are inside (inside.c), its body is
 *   const i64 v<N> = ...;  if (INSIDE) { ... } else { ... }     without those comparisons, and with them, or
 *   if (CASE) { ... } else { if (CASE) { ... } else { ... } }   between constants that one counter is compared with,
 * and, n being a value, or a constant that V does not divide, and no accumulators there,
 *   for (i64 i = 0; i < n; i += V) { ...  if (i + V <= n && INSIDE) { ... } else { const boolxV t<N> = ...; ... } }
 *
 * In a vector loop v<N> is a scalar (of lane 0, if it is an index that moves evenly) or a vector TxV, T a dtype; bools
 * are boolxV, 0 or -1 in each lane.  Operators work on each lane; signed integers wrap.  Helpers, with T for TxV:
 *   tn_all_T(x)             x in each lane             tn_step_T(x, s)           x + l s in lane l
 *   tn_load_T(p)            p[l] in lane l             tn_load_if_T(p, m)        so where m, else 0 and not read
 *   tn_store_T(p, v)        p[l] = v[l]                tn_store_if_T(p, v, m)    so where m
 *   tn_store_wide_i32xV(p, v)   p[l] = (i64)v[l]       tn_store_wide_if_i32xV(p, v, m)   so where m; p of i64
 *   tn_gather_T(p, i, m)    p[i[l]] where m, else 0 and not read; i of i32; tn_gather_far_T: of i64
 *   tn_spaced_T(p, s, m)    p[s l] where m, else 0 and not read; s is -1, 2, 3 or 4
 *   tn_apart_T(p, s, n)     p[s l] in the first n lanes, else p[0]; s, 2 to 4, and n are constants
 *   tn_back_T(p, n)         p[-l] in the first n lanes, else p[0]
 *   tn_scatter_T(p, i, v, m)   p[i[l]] = v[l] where m, lane after lane; tn_scatter_far_T
 *   tn_turn_T(p, q, r, s, n, m)   p[b q + a] = r[a s + b] for a < min(n, V), b < min(m, V)
 *   tn_weave_T(p, r, s, n, m)     p[b n + a] = r[a s + b] for a < n, b < min(m, V); n, 2 to 7, is a constant
 *   tn_first_boolxV(n)      l < n in lane l, n > 0     tn_across_T(x, h)         x[l ^ h] in lane l
 *   tn_pick_T(c, a, b)      c ? a : b, c being a comparison of values as wide as T
 *   tn_where_T(c, a, b)     c ? a : b, c a bool        tn_boolxV(c)              the comparison c as a bool
 *   tn_of_bool_T(c)         c ? 1 : 0                  tn_cast_F_T(x)            converts numbers F as C does, integers
 *                                                                                modulo 2^n; (T)x keeps the bits
 *   tn_f16xV_held(u16xV)    the f32xV with these bits  tn_f16xV_cells(f32xV)     the bits of what is rounded; so
 *                                                                                bf16; tn_bf16xV_upper: unrounded
 * Any other tn_<name>, in which each dtype is followed by xV, is the function of scalars without that, on each lane. */
#include "render/lanes.h"
#include "ir/build.h"
#include <inttypes.h>

/* ---- loops ---- */

enum {
  FEW_TURNS = 4,    /* of a loop that is written out, */
  FEW_STEPS = 1024, /* and what these do: instructions, those of vector loops for each vector, */
  FEW_STORED = 32   /* or of a turn that stores, without any */
};

/* What a turn of the loop does, for all vectors, where it is a reduction in a constant number of lanes; else more than
 * FEW_STEPS: between branches, stores or loops nothing comes of turns that are written out. */
/* a choice: any is right */
static int64_t steps_of(const tn__printer *p, uint32_t start) {
  int64_t steps = 0;
  bool in_lanes = false;
  for (uint32_t i = start + 1, end; p->part->ins[i]->op != OP_END; i++) {
    const tn_node *n = p->part->ins[i];
    bool lanes = n->op == OP_RANGE && n->ints[0] == AX_UPCAST && tn__is_const(n->src[0]);
    if (n->op == OP_STORE || n->op == OP_STOREADD || (n->op == OP_RANGE && !lanes)) return FEW_STEPS + 1;
    steps++;
    if (!lanes) continue;
    int count = tn__lanes_count(p, i, &end);
    for (uint32_t k = i; k < end; k++) in_lanes |= p->part->ins[k]->op == OP_SETACC;
    steps += (n->hi / count + 1) * (int64_t)(end - i);
    i = end;
  }
  return in_lanes ? steps : FEW_STEPS + 1;
}

/* Is there nothing in the loop but what it stores, element by element? */
static bool only_stores(const tn__printer *p, uint32_t start) {
  bool stores = false;
  uint32_t i = start + 1;
  for (; p->part->ins[i]->op != OP_END; i++) {
    int op = p->part->ins[i]->op;
    if (op == OP_RANGE || op == OP_ACC || op == OP_SETACC) return false;
    stores |= op == OP_STORE;
  }
  return stores && i - start <= FEW_STORED;
}

/* Rows of few elements go in lanes across rows, one loop for each thing that is found out of a row.  Turn by turn
 * written out, such a loop begins with what its first turn finds, numbers of turns are constants, and what several of
 * them load is loaded once: compilers see that, but at the level that kernels are compiled at they have to be told.
 * Elements of rows that are too short for lanes are a few instructions each, as many as the loop around them. */
/* a choice: either is right */
static bool has_few_turns(const tn__printer *p, uint32_t start, int64_t *turns) {
  const tn_node *r = p->part->ins[start];
  return r->ints[0] != AX_GLOBAL && tn__const_int(r->src[0], turns) && *turns > 1 && *turns <= FEW_TURNS &&
         (only_stores(p, start) || *turns * steps_of(p, start) <= FEW_STEPS);
}

static void open_range(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  bool global = r->ints[0] == AX_GLOBAL;
  int64_t turns;
  const char *i = tn__print_give(p, r, 'i', p->nloop++);
  if (has_few_turns(p, start, &turns)) tn__print_line(p, "#pragma GCC unroll %" PRId64, turns);
  tn__print_line(p, "for (i64 %s = %s; %s < %s; %s++) {", i, global ? "lo" : "0", i,
                 global ? "hi" : tn__print_name(p, r->src[0]), i);
  p->depth++;
  tn__vec_push(&p->c->scratch, &p->open, ((tn__open_loop){.start = start}));
}

static void close_range(tn__printer *p) {
  if (!p->open.n) tn__fail(p->c, TN_ERUN, "kernel %s closes a loop that is not open", p->k->name);
  p->open.n--;
  tn__print_brace(p, "}");
}

/* ---- a part ---- */

/* The instruction at ins[at], or the vector loop that starts there; where to go on */
static uint32_t put_instruction(tn__printer *p, uint32_t at) {
  tn_node *n = p->part->ins[at];
  uint32_t behind;
  switch (n->op) {
  case OP_RANGE:
    if (n->ints[0] == AX_UPCAST) return tn__lanes_loop(p, at);
    if ((behind = tn__lanes_turned(p, at))) return behind;
    open_range(p, at);
    break;
  case OP_END: close_range(p); break;
  case OP_ACC: tn__lanes_acc(p, n); break;
  case OP_SETACC: tn__lanes_setacc(p, n); break;
  case OP_GETACC: tn__lanes_getacc(p, n); break;
  case OP_LOAD: tn__print_load(p, n); break;
  case OP_STORE:
  case OP_STOREADD:
    tn__print_store(p, n, tn__gate_of(n) ? tn__print_name(p, tn__gate_of(n)) : NULL, tn__print_element(p, n));
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
  tn__lanes_plan(p);
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
