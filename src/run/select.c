/* What stands in a tensor and where, of as many elements as there are: how many is computed and read, and the rest made
 * of what that took.  The handles for that in between are gone when a result has been made. */
#include "tensor/select.h"
#include "ir/build.h"
#include "run/runtime.h"

enum { VALUES, INVERSE, COUNTS, PLACES, OUTPUTS };
enum { COUNT, UPTO, ORDER, SORTED, PARTS };

typedef struct selection {
  tn_tensor *t;
  tn_tensor **want[OUTPUTS];
  tn_tensor *made[OUTPUTS];
  tn_tensor *part[PARTS]; /* what these are made of, until they are */
} selection;

static int64_t number_in(tn_ctx *c, const tn_tensor *t) {
  int64_t n;
  tn__buffer *b = tn__storage_buffer(c, t->node);
  b->device->ops->download(b->device, &n, b->mem, sizeof n);
  return n;
}

/* Computes what the rest is made of, and the inverse, which does not hang on how many there are.  It also needs the
 * order as a permutation, which memory is not known to hold.  Gives how many there are. */
static int64_t compute(tn_ctx *c, tn__chosen *k, selection *s) {
  bool values = s->want[VALUES];
  tn_node *part[PARTS] = {tn__chosen_count(c, k), k->upto, values ? k->order : NULL, values ? k->sorted : NULL};
  tn_tensor *cell[PARTS + 1];
  int n = 0;
  for (int i = 0; i < PARTS; i++)
    if (part[i]) cell[n++] = s->part[i] = tn__cell_new(c, part[i]);
  if (s->want[INVERSE]) cell[n++] = s->made[INVERSE] = tn__cell_new(c, tn__distinct_inverse(c, k, s->t->node));
  tn__run_realize(c, cell, n);
  k->upto = s->part[UPTO]->node;
  k->is = NULL; /* it is not computed again */
  k->order = s->part[ORDER] ? s->part[ORDER]->node : NULL;
  k->sorted = s->part[SORTED] ? s->part[SORTED]->node : NULL;
  return number_in(c, s->part[COUNT]);
}

/* Floats may be asked for their gradient later, which goes where the order says. */
static bool is_ordered(const selection *s) {
  return s->want[INVERSE] || (s->want[VALUES] && tn__is_float(s->t->node->dtype));
}

static void choose(tn_ctx *c, void *arg) {
  selection *s = arg;
  const char *fault = tn__cell_fault(c, s->t);
  if (fault) tn__fail(c, TN_EINVAL, "tensor argument 1 %s", fault);
  bool any = false;
  for (int i = 0; i < OUTPUTS; i++) any |= s->want[i] != NULL;
  if (!any) tn__fail(c, TN_EINVAL, "there is no place for a result: all are NULL");
  tn_node *x = s->t->node;
  tn__chosen k = s->want[PLACES] ? tn__choose_nonzero(c, x) : tn__choose_distinct(c, x, is_ordered(s));
  tn_node *count = tn__int(c, compute(c, &k, s));
  if (s->want[PLACES]) s->made[PLACES] = tn__cell_new(c, tn__nonzero_places(c, &k, x, count, -1));
  if (s->want[VALUES]) s->made[VALUES] = tn__cell_new(c, tn__distinct_values(c, &k, x, count, 0));
  if (s->want[COUNTS]) s->made[COUNTS] = tn__cell_new(c, tn__distinct_counts(c, &k, count));
}

static tn_status run(const char *api, selection *s) {
  tn_ctx *c = tn__cell_use(s->t, api);
  if (!c) return TN_EINVAL;
  tn__cells_drain(c);
  tn__storage_reap(c);
  bool ok = tn__ctx_run(c, api, choose, s);
  for (int i = 0; i < PARTS; i++) tn_release(s->part[i]);
  for (int i = 0; i < OUTPUTS; i++) {
    if (!ok)
      tn_release(s->made[i]);
    else if (s->made[i])
      *s->want[i] = s->made[i];
  }
  tn__storage_reap(c);
  return ok ? TN_OK : c->failed;
}

tn_status tn_unique_now(tn_tensor *t, tn_tensor **values, tn_tensor **inverse, tn_tensor **counts) {
  selection s = {.t = t, .want = {[VALUES] = values, [INVERSE] = inverse, [COUNTS] = counts}};
  return run("tn_unique_now", &s);
}

tn_tensor *tn_nonzero_now(tn_tensor *t) {
  tn_tensor *places = NULL;
  selection s = {.t = t, .want = {[PLACES] = &places}};
  run("tn_nonzero_now", &s);
  return places;
}
