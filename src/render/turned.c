/* Copies across: what lies along one of two loops goes to where it lies along the other, the inner one of which has
 * the lanes.  A vector would gather its lanes one by one, or scatter them; blocks of as many lines as there are lanes
 * are loaded and stored line by line, and turned in registers on their way (slices.c says what tn_turn_T does).  A few
 * lines whose elements come to lie beside each other are woven into one (tn_weave_T).
 * lower/turn.c leaves such copies to this, so what it takes for one (a step from line to line, either way) has to be
 * one here. */
#include "ir/build.h"
#include "render/lanes.h"
#include <inttypes.h>
#include <stdlib.h>

typedef struct copy {
  uint32_t inner, end; /* the vector loop */
  tn_node *load, *store;
  int64_t from, to; /* from line to line: of what is loaded, of what is stored */
  bool along_lanes; /* lanes are loaded as they lie, else stored */
} copy;

enum { MOST_WOVEN = 7 }; /* lines: each takes a shuffle for each of them but one */

static bool is_index(const tn_node *n) { return n->dtype == TN__INDEX && tn__is_elementwise(n); }

/* A load and a store of what it loads, in two loops around nothing else */
static bool find_copy(const tn__printer *p, uint32_t at, copy *out) {
  tn_node *const *ins = p->part->ins;
  uint32_t i = at + 1;
  if (ins[at]->ints[0] == AX_GLOBAL) return false;
  while (i < p->part->n && is_index(ins[i])) i++;
  if (i + 1 >= p->part->n || ins[i]->op != OP_RANGE || ins[i]->ints[0] != AX_UPCAST) return false;
  *out = (copy){.inner = i};
  for (i++; ins[i]->op != OP_END; i++) {
    tn_node *n = ins[i];
    if (is_index(n)) continue;
    tn_node **access = n->op == OP_LOAD ? &out->load : n->op == OP_STORE ? &out->store : NULL;
    if (!access || *access || tn__gate_of(n)) return false;
    *access = n;
  }
  out->end = i;
  return out->load && out->store && out->store->src[2] == out->load && i + 1 < p->part->n &&
         ins[i + 1]->op == OP_END && out->load->src[0] != out->store->src[0];
}

/* How far it is from one turn of the range at ins[start] to the next in each of them; false: not always as far. */
static bool find_steps(tn__printer *p, uint32_t start, const copy *k, int64_t *load, int64_t *store) {
  tn__lanes_forms(p, start, k->end);
  const tn__lane_value *from = tn__lanes_value(p, k->load->src[1]), *to = tn__lanes_value(p, k->store->src[1]);
  *load = from->step;
  *store = to->step;
  return from->form != TN__LANES_VECTOR && to->form != TN__LANES_VECTOR;
}

static bool lies_across(tn__printer *p, uint32_t at, copy *k) {
  int64_t load[2], store[2]; /* of the outer loop, of the lanes */
  bool even = find_steps(p, at, k, &load[0], &store[0]) && find_steps(p, k->inner, k, &load[1], &store[1]);
  tn__map_init(&p->lane, &p->c->scratch);
  if (!even) return false;
  k->along_lanes = load[1] == 1 && store[0] == 1;
  k->from = load[!k->along_lanes];
  k->to = store[k->along_lanes];
  bool apart = llabs(k->from) > 1 && llabs(k->to) > 1;
  return apart && (k->along_lanes || (load[0] == 1 && store[1] == 1));
}

static void open_loop(tn__printer *p, tn_node *range, uint32_t first, uint32_t end) {
  const char *i = tn__print_give(p, range, 'i', p->nloop++);
  tn__print_line(p, "for (i64 %s = 0; %s < %s; %s += %d) {", i, i, tn__print_name(p, range->src[0]), i, p->count);
  p->depth++;
  for (uint32_t k = first; k < end; k++)
    if (is_index(p->part->ins[k])) tn__print_plain(p, p->part->ins[k]);
}

static const char *left_of(tn__printer *p, tn_node *range) {
  return tn__print_format(p, "%s - %s", tn__print_name(p, range->src[0]), tn__print_name(p, range));
}

static const char *place_of(tn__printer *p, tn_node *access) {
  return tn__print_format(p, "&%s", tn__print_element(p, access));
}

/* Do all lines of the outer loop, whose elements the lanes are, come to lie beside each other, and nothing between? */
/* a choice: no is right */
static bool is_woven(const tn__printer *p, const copy *k, const tn_node *outer) {
  int64_t lines;
  return k->along_lanes && tn__const_int(outer->src[0], &lines) && lines == k->to && lines > 1 && lines <= MOST_WOVEN &&
         lines <= p->count;
}

static void put_woven(tn__printer *p, const copy *k, const char *type, const char *left) {
  const char *cell = p->d->cell[k->load->dtype];
  tn__lanes_need(p, tn__print_format(p, "TN_WEAVE(%d, %s, %s, boolx%d, %" PRId64 ")", p->count, type, cell, p->count,
                                     k->to));
  tn__lanes_need(p, tn__print_format(p, "#define tn_weave_%s(p, r, s, n, m) tn_weave_##n##_%s(p, r, s, m)", type,
                                     type));
  tn__print_line(p, "tn_weave_%s(%s, %s, %" PRId64 ", %" PRId64 ", %s);", type, place_of(p, k->store),
                 place_of(p, k->load), k->from, k->to, left);
}

static void put_turned(tn__printer *p, const copy *k, const char *type, const char *lines, const char *left) {
  const char *cell = p->d->cell[k->load->dtype];
  tn__lanes_need(p, tn__print_format(p, "TN_TURN(%d, %s, %s, boolx%d)", p->count, type, cell, p->count));
  tn__print_line(p, "tn_turn_%s(%s, %" PRId64 ", %s, %" PRId64 ", %s, %s);", type, place_of(p, k->store), k->to,
                 place_of(p, k->load), k->from, lines, left);
}

uint32_t tn__lanes_turned(tn__printer *p, uint32_t at) {
  copy k;
  if (!find_copy(p, at, &k) || !lies_across(p, at, &k)) return 0;
  tn_node *outer = p->part->ins[at], *lanes = p->part->ins[k.inner], *line = k.along_lanes ? outer : lanes;
  p->count = tn__lanes_count(p, k.inner, &k.end);
  if (p->count > TN__LANES_TURNED) return 0;
  const char *type = tn__print_format(p, "%sx%d", p->d->cell[k.load->dtype], p->count);
  open_loop(p, outer, at + 1, k.inner);
  open_loop(p, lanes, k.inner + 1, k.end);
  const char *left = left_of(p, line == outer ? lanes : outer);
  if (is_woven(p, &k, outer)) put_woven(p, &k, type, left);
  else put_turned(p, &k, type, left_of(p, line), left);
  tn__print_brace(p, "}");
  tn__print_brace(p, "}");
  return k.end + 2;
}
