/* Under TENET_VERIFY devices are asked for what the schedule says, and values stand where they should: what is put
 * wrong on the way is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/bound_check.h"
#include "run/library_check.h"
#include "run/plan.h"
#include "support/device.h"
#include "support/library.h"
#include "support/stderr_of.h"
#include "tenet/tenet.h"
#include "verify/facts.h"
#include <math.h>
#include <string.h>

enum { MOST = 8 };

typedef struct trial {
  tn_ctx *c;
  tn__plan *p;
  tn__buffer *in[MOST], *out[MOST];
  tn_status status;
  void (*spoil)(struct trial *t);
  tn_tensor *y;
} trial;

/* ---- a run, something of it made wrong ---- */

static void find_temporaries(const trial *t, uint32_t *pair) {
  uint32_t n = 0;
  for (uint32_t b = 0; b < t->p->s->bufs.n && n < 2; b++)
    if (t->p->s->bufs.v[b].kind == BUF_TEMP) pair[n++] = b;
  assert_int_equal(n, 2);
}

static tn__step *find_step(const trial *t, bool library, uint32_t slots) {
  for (uint32_t i = 0; i < t->p->s->items.n; i++)
    if ((t->p->step[i].kernel < 0) == library && t->p->step[i].nbuf >= slots) return &t->p->step[i];
  fail_msg("there is no such item");
  return NULL;
}

static void leave(trial *t) { (void)t; }
static void swap_slots(trial *t) {
  tn__step *st = find_step(t, false, 2);
  int b = st->buf[0];
  st->buf[0] = st->buf[1], st->buf[1] = b;
}
static void share_arena(trial *t) {
  uint32_t b[2];
  find_temporaries(t, b);
  t->p->offset[b[1]] = t->p->offset[b[0]];
}
static void leave_arena(trial *t) {
  uint32_t b[2];
  find_temporaries(t, b);
  t->p->offset[b[0]] = t->p->temp->size;
}
static void tell_half(trial *t) {
  uint32_t b[2];
  find_temporaries(t, b);
  t->p->bytes[b[0]] /= 2;
}
static void write_input(trial *t) { t->out[0] = t->in[0]; }
static void give_less(trial *t) { t->in[0]->size /= 2; }
static void turn_operand(trial *t) { find_step(t, true, 3)->product.trans_a ^= 1; }
static void longer_rows(trial *t) { find_step(t, true, 3)->product.lda++; }
static void fewer_steps(trial *t) { find_step(t, true, 3)->product.k--; }
static void shift_operand(trial *t) { find_step(t, true, 3)->b_off++; }
static void other_function(trial *t) {
  tn__step *st = find_step(t, true, 3);
  st->product.after = st->product.after == TN__AFTER_RELU ? TN__AFTER_NOTHING : TN__AFTER_RELU;
}

static const struct {
  const char *what;
  void (*spoil)(trial *t);
  bool library, good;
} spoils[] = {
    {"as it is", leave, false, true},
    {"as it is, with the library", leave, true, true},
    {"buffers are swapped", swap_slots, false, false},
    {"temporaries share memory", share_arena, false, false},
    {"a temporary is outside", leave_arena, false, false},
    {"a size is another one", tell_half, false, false},
    {"an output stands on an input", write_input, false, false},
    {"an input is too small", give_less, false, false},
    {"an operand is turned", turn_operand, true, false},
    {"rows are longer", longer_rows, true, false},
    {"fewer steps", fewer_steps, true, false},
    {"an operand is shifted", shift_operand, true, false},
    {"another function behind", other_function, true, false},
};

static void run_spoiled(tn_ctx *c, void *arg) {
  trial *t = arg;
  tn__nodes in = {0};
  t->p = tn__plan_get(c, tn__plan_key(c, &t->y->node, 1, &in));
  tn__plan_bind(c, t->p, NULL);
  assert_true(in.n < MOST);
  for (uint32_t i = 0; i < in.n; i++) t->in[i] = tn__storage_buffer(c, in.v[i]);
  tn__buffer *own = t->out[0] = tn__buffer_new(t->p->dev, tn__plan_out_bytes(t->p, 0));
  size_t size = t->in[0]->size;
  t->spoil(t);
  t->status = tn__plan_run(c, t->p, t->in, t->out);
  t->in[0]->size = size;
  tn__buffer_drop(own);
}

static tn_tensor *filled(tn_ctx *c, tn_dim rows, tn_dim columns) {
  tn_tensor *t = tn_uniform(c, TN_F32, (tn_dim[]){rows, columns}, 2, 0, 1);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static void spoiled_runs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){
        .device = spoils[i].library ? "cpu" : "ref:sm_90", .quiet = 1, .verify = "/dev/null", .cache_dir = ""});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *x = filled(c, 20, 12), *w = filled(c, 12, 10), *v = filled(c, 10, 15);
      tn_tensor *y = tn_matmul(tn_softmax(tn_matmul(x, w), 1), v);
      trial t = {.c = c, .spoil = spoils[i].spoil, .y = tn_sum(tn_softmax(y, 0), (int[]){1}, 1, false)};
      if (!tn__ctx_run(c, "test", run_spoiled, &t)) fail_msg("%s: %s", spoils[i].what, tn_last_error(c)->text);
      if ((t.status == TN_OK) != spoils[i].good) fail_msg("%s: %s", spoils[i].what, tn_last_error(c)->text);
      if (!spoils[i].good && !strstr(tn_last_error(c)->text, "than the schedule says"))
        fail_msg("%s: %s", spoils[i].what, tn_last_error(c)->text);
    }
    tn_ctx_close(c);
  }
}

/* ---- outputs that stand in inputs ---- */

static void in_place(trial *t) { tn__plan_output(t->p, 0, t->in, &t->out[0]); }
static void elsewhere_in_input(trial *t) { tn__buffer_share(&t->out[0], t->in[0], 0, t->out[0]->size); }
static void the_same_bytes(trial *t) {
  tn__host_copy(t->p->dev, t->out[0]->mem, (char *)t->in[0]->mem + 256, t->out[0]->size);
}
static void other_bytes(trial *t) {
  the_same_bytes(t);
  ((char *)t->out[0]->mem)[t->out[0]->size - 1] ^= 1;
}
static void cut_short(trial *t) { in_place(t), t->out[0]->size -= 4; }
static void beyond_input(trial *t) { in_place(t), t->p->s->bufs.v[t->p->out_buf[0]].from += 1000; }

static const struct {
  const char *what;
  void (*spoil)(trial *t);
  bool good;
} parts[] = {{"in place", in_place, true},           {"elsewhere", elsewhere_in_input, false},
             {"a copy", the_same_bytes, true},       {"another copy", other_bytes, false},
             {"too little memory", cut_short, false}, {"beyond the input", beyond_input, false}};

static void run_part(tn_ctx *c, void *arg) {
  trial *t = arg;
  tn__nodes in = {0};
  t->p = tn__plan_get(c, tn__plan_key(c, &t->y->node, 1, &in));
  tn__plan_bind(c, t->p, NULL);
  assert_int_equal(t->p->s->items.n, 0);
  t->in[0] = tn__storage_buffer(c, in.v[0]);
  t->out[0] = tn__buffer_new(t->p->dev, tn__plan_out_bytes(t->p, 0));
  t->spoil(t);
  t->status = tn__plan_run(c, t->p, t->in, t->out);
  tn__buffer_drop(t->out[0]);
}

static void shared_outputs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "/dev/null"});
    assert_non_null(c);
    tn_scope(c) {
      trial t = {.c = c, .spoil = parts[i].spoil, .y = tn_slice(filled(c, 10, 32), 0, 2, 6, 1)};
      if (!tn__ctx_run(c, "test", run_part, &t)) fail_msg("%s: %s", parts[i].what, tn_last_error(c)->text);
      if ((t.status == TN_OK) != parts[i].good) fail_msg("%s: %s", parts[i].what, tn_last_error(c)->text);
    }
    tn_ctx_close(c);
  }
}

/* What the schedule says of them is held against the graph. */
static void from_the_start(tn__schedule *s, tn__buf *b) { (void)s, b->from = 0; }
static void further_on(tn__schedule *s, tn__buf *b) { (void)s, b->from += 1; }
static void far_on(tn__schedule *s, tn__buf *b) { b->from = s->bufs.v[b->of].size->ints[0]; }
static void in_another(tn__schedule *s, tn__buf *b) {
  for (int i = 0; i < (int)s->bufs.n; i++)
    if (s->bufs.v[i].kind == BUF_INPUT && i != b->of) {
      b->of = i;
      return;
    }
}
static void as_it_is(tn__schedule *s, tn__buf *b) { (void)s, (void)b; }
static void (*const part_spoils[])(tn__schedule *, tn__buf *) = {as_it_is, from_the_start, further_on, far_on,
                                                                 in_another};

typedef struct compared {
  tn_tensor *y[2];
  tn__plan *p;
  void (*spoil)(tn__schedule *, tn__buf *);
} compared;

static void compare_part(tn_ctx *c, void *arg) {
  compared *k = arg;
  tn__nodes in = {0};
  k->p = tn__plan_new(c, tn__plan_key(c, (tn_node *[]){k->y[0]->node, k->y[1]->node}, 2, &in));
  tn__plan_schedule(c, k->p);
  tn__buf *b = &k->p->s->bufs.v[k->p->out_buf[0]];
  assert_true(b->shared);
  k->spoil(k->p->s, b);
  tn__plan_lower(c, k->p, NULL);
  tn__plan_validate(c, k->p);
}

static void parts_compared(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof part_spoils / sizeof *part_spoils; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "/dev/null"});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *x = filled(c, 10, 8), *z = filled(c, 10, 8);
      compared k = {.spoil = part_spoils[i], .y = {tn_slice(x, 0, 2, 6, 1), tn_add(x, z)}};
      if (tn__ctx_run(c, "test", compare_part, &k) != (i == 0)) fail_msg("%zu: %s", i, tn_last_error(c)->text);
      if (i) assert_non_null(strstr(tn_last_error(c)->text, "the schedule is not the graph"));
      tn__plan_free(c, k.p);
    }
    tn_ctx_close(c);
  }
}

/* ---- recordings ---- */

struct tn__recording {
  int unused;
};

static struct {
  tn__device_ops ops, ref;
  tn__recording made[MOST];
  int n;
  bool out_of_turn;
} fake;

static tn_status record(tn__device *d) {
  const bool early[2] = {false, false};
  return fake.out_of_turn ? d->ops->after(d, 1, NULL, 0, early, false) : TN_OK;
}
static tn_status after(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                       int urgent) {
  (void)d, (void)item, (void)before, (void)n, (void)early, (void)urgent;
  return TN_OK;
}
static tn__recording *recorded(tn__device *d) {
  (void)d;
  return &fake.made[fake.n++];
}
static tn_status replay(tn__device *d, tn__recording *r) {
  (void)d, (void)r;
  return TN_OK;
}
static void forget(tn__device *d, tn__recording *r) { (void)d, (void)r; }

typedef struct replays {
  trial t;
  tn__buffer *other;
  bool swap;
} replays;

static void run_replays(tn_ctx *c, void *arg) {
  replays *k = arg;
  trial *t = &k->t;
  tn__nodes in = {0};
  t->p = tn__plan_get(c, tn__plan_key(c, &t->y->node, 1, &in));
  tn__plan_bind(c, t->p, NULL);
  for (uint32_t i = 0; i < in.n; i++) t->in[i] = tn__storage_buffer(c, in.v[i]);
  tn__buffer *out[2];
  for (int i = 0; i < 2; i++) out[i] = tn__buffer_new(t->p->dev, tn__plan_out_bytes(t->p, 0));
  for (int i = 0; i < 6 && t->status == TN_OK; i++) {
    t->out[0] = out[i % 2];
    if (i == 4 && k->swap) {
      tn__recording *first = t->p->record[0].work;
      t->p->record[0].work = t->p->record[1].work;
      t->p->record[1].work = first;
    }
    t->status = tn__plan_replay(c, t->p, t->in, t->out);
  }
  for (int i = 0; i < 2; i++) tn__buffer_drop(out[i]);
}

static void recordings(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "/dev/null"});
    assert_non_null(c);
    tn__device *d = tn__device_get(c, 0);
    fake.ops = fake.ref = *d->ops;
    fake.ops.record = record, fake.ops.after = after, fake.ops.recorded = recorded, fake.ops.replay = replay,
    fake.ops.forget = forget;
    fake.n = 0, fake.out_of_turn = i == 2;
    d->ops = &fake.ops;
    tn_scope(c) {
      tn_tensor *x = filled(c, 7, 5);
      replays k = {.t = {.c = c, .y = tn_sum(tn_softmax(tn_matmul(x, tn_transpose(x, 0, 1)), 0), NULL, 0, false)},
                   .swap = i == 1};
      if (!tn__ctx_run(c, "test", run_replays, &k)) fail_msg("%s", tn_last_error(c)->text);
      if ((k.t.status == TN_OK) != (i == 0)) fail_msg("%d: %s", i, tn_last_error(c)->text);
      if (i) assert_non_null(strstr(tn_last_error(c)->text, i == 1 ? "recording of other memory" : "out of turn"));
    }
    tn_ctx_close(c);
  }
}

/* ---- values ---- */

typedef struct wanted {
  tn_tensor *asked, *made;
} wanted;

static void make_another(tn_ctx *c, void *arg) {
  wanted *w = arg;
  tn__run_realize(c, &w->made, 1);
  tn__cell_set(w->asked, w->made->node);
}

static void watch(tn_ctx *c, void *arg) {
  wanted *w = arg;
  tn__bound_watch(c, &w->asked, 1, make_another, arg);
}

/* The operands of a difference, the other way round; another value; the right one. */
static void values(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "/dev/null"});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = filled(c, 4, 5), *y = filled(c, 4, 5);
    wanted w[] = {{tn_sub(x, y), tn_sub(x, y)}, {tn_sub(x, y), tn_sub(y, x)}, {tn_neg(x), tn_neg(y)},
                  {tn_neg(x), tn_exp(x)}, {tn_neg(x), x}};
    for (size_t i = 0; i < sizeof w / sizeof *w; i++) {
      assert_int_equal(tn__ctx_run(c, "test", watch, &w[i]), i == 0);
      if (i) assert_non_null(strstr(tn_last_error(c)->text, "internal: a value"));
      tn_clear_error(c);
    }
  }
  tn_ctx_close(c);
}

/* ---- libraries ---- */

static bool has_conv(tn__device *d, int dtype) { return (void)d, dtype == TN_F32; }

/* It writes nothing: what stood there is no convolution. */
static tn_status do_nothing(tn__device *d, const tn__conv_call *v) { return (void)d, (void)v, TN_OK; }

static void no_change(tn__conv *v) { (void)v; }
static void other_stride(tn__conv *v) { v->stride[1]++; }
static void less_padding(tn__conv *v) { v->pad[0]--; }
static void wider_filter(tn__conv *v) { v->dilation[0]++; }
static void channels_last(tn__conv *v) { v->channels_last ^= 1; }
static void turned_filter(tn__conv *v) {
  tn_node *r = v->size[CONV_R];
  v->size[CONV_R] = v->size[CONV_S], v->size[CONV_S] = r;
}
static void swapped_operands(tn__conv *v) {
  int b = v->operand[CONV_DATA].buf;
  v->operand[CONV_DATA].buf = v->operand[CONV_FILTER].buf, v->operand[CONV_FILTER].buf = b;
}
static void another_kind(tn__conv *v) { v->kind = v->kind == CONV_FORWARD ? CONV_FILTER : CONV_FORWARD; }

static void (*const conv_spoils[])(tn__conv *v) = {no_change,     other_stride,  less_padding,     wider_filter,
                                                   channels_last, turned_filter, swapped_operands, another_kind};

typedef struct convolution {
  tn_tensor *y;
  tn__plan *p;
  void (*spoil)(tn__conv *v);
} convolution;

static void compare_conv(tn_ctx *c, void *arg) {
  convolution *k = arg;
  tn__nodes in = {0};
  uint32_t found = 0;
  k->p = tn__plan_new(c, tn__plan_key(c, &k->y->node, 1, &in));
  tn__plan_schedule(c, k->p);
  for (uint32_t i = 0; i < k->p->s->items.n; i++)
    if (k->p->s->items.v[i].conv) k->spoil((tn__conv *)(uintptr_t)k->p->s->items.v[i].conv), found++;
  assert_int_equal(found, 1);
  tn__plan_lower(c, k->p, NULL);
  tn__plan_validate(c, k->p);
}

static tn_tensor *images(tn_ctx *c, tn_dim n, tn_dim channels, tn_dim h, tn_dim w) {
  tn_tensor *t = tn_uniform(c, TN_F32, (tn_dim[]){n, channels, h, w}, 4, 0, 1);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

/* A convolution's parameters are held against its graph, and its result against them. */
static void convolutions(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof conv_spoils / sizeof *conv_spoils; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "/dev/null"});
    assert_non_null(c);
    tn__device *d = tn__device_get(c, 0);
    tn__device_ops ops = *d->ops;
    ops.has_conv = has_conv, ops.conv = do_nothing;
    d->ops = &ops;
    tn_scope(c) {
      convolution k = {.spoil = conv_spoils[i]};
      k.y = tn_conv2d(images(c, 2, 3, 8, 9), images(c, 4, 3, 3, 2), NULL, &(tn_conv2d_options){.padding = {1, 1}});
      if (tn__ctx_run(c, "test", compare_conv, &k) != (i == 0)) fail_msg("%zu: %s", i, tn_last_error(c)->text);
      tn__plan_free(c, k.p);
      if (i) assert_non_null(strstr(tn_last_error(c)->text, "is not that of the reference"));
      else assert_int_equal(tn_realize(&k.y, 1), TN_ERUN);
      if (!i) assert_non_null(strstr(tn_last_error(c)->text, "the library's convolution is another one"));
    }
    tn_ctx_close(c);
  }
}

/* ---- what libraries give ---- */

static struct {
  tn__device_ops real, ops;
  int kind;    /* that is changed: of convolutions, -1: of products */
  int64_t at;  /* element of its result, from the end if it is less than 0 */
  float add;
} faulty;

static void change(void *mem, int64_t n) {
  float *x = mem;
  x[faulty.at < 0 ? n + faulty.at : faulty.at] += faulty.add;
}

static tn_status multiply(tn__device *d, const tn__product *g) {
  tn_status status = faulty.real.gemm(d, g);
  if (faulty.kind < 0) change(g->c, g->batch * g->m * g->n);
  return status;
}

static tn_status convolve_some(tn__device *d, const tn__conv_call *v) {
  int64_t n = 1;
  for (int i = 0; i < 4; i++) n *= v->size[tn__conv_dims[v->kind][i]];
  tn_status status = library_convolve(d, v);
  if (faulty.kind == (int)v->kind) change(v->operand[v->kind], n);
  return status;
}

static tn_ctx *open_faulty(const char *verify, int kind, int64_t at, float add) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1, .verify = verify});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, tn__device_find(c, "cpu"));
  faulty.real = faulty.ops = *d->ops;
  faulty.kind = kind, faulty.at = at, faulty.add = add;
  faulty.ops.gemm = multiply, faulty.ops.has_conv = library_takes, faulty.ops.conv = convolve_some;
  d->ops = &faulty.ops;
  return c;
}

static void expect(tn_ctx *c, tn_status got, const char *words, const char *what) {
  if (words ? got != TN_ERUN || !strstr(tn_last_error(c)->text, words) : got != TN_OK)
    fail_msg("%s: %s", what, tn_last_error(c)->text);
}

/* Operands of any size, turned or not, also of more than 2^20 elements: `at` is wrong by more than roundings may be. */
static void products(void **state) {
  static const struct {
    const char *what;
    tn_dim batch, m, k, n;
    int64_t at; /* 0 and 1: it is right */
    bool wrong;
  } of[] = {{"small", 1, 20, 12, 16, 0, false},       {"the first", 1, 20, 12, 16, 0, true},
            {"the last", 1, 20, 12, 16, -1, true},    {"long rows", 1, 3, 270000, 4, 0, false},
            {"of long rows", 1, 3, 270000, 4, -1, true}, {"many rows", 1, 270000, 12, 4, -1, true},
            {"many columns", 1, 4, 12, 270000, -1, true}, {"batches", 3, 71, 5000, 4, 0, false},
            {"of the last batch", 3, 71, 5000, 4, -1, true}};
  unsigned long seen = 0;
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!is_taken(&seen)) continue;
    tn_ctx *c = open_faulty("/dev/null", of[i].wrong ? -1 : CONV_DATA, of[i].at, 1e6f);
    tn_scope(c) {
      tn_tensor *x = tn_uniform(c, TN_F32, (tn_dim[]){of[i].batch, of[i].m, of[i].k}, 3, 0, 1);
      tn_tensor *w = tn_uniform(c, TN_F32, (tn_dim[]){of[i].batch, of[i].n, of[i].k}, 3, 0, 1);
      assert_int_equal(tn_realize((tn_tensor *[]){x, w}, 2), TN_OK);
      tn_tensor *y = tn_matmul(x, tn_transpose(w, 1, 2));
      expect(c, tn_realize(&y, 1), of[i].wrong ? "the library's product is another one" : NULL, of[i].what);
      assert_true(c->runtime->calls[CALLS_RIGHT] == !of[i].wrong && !c->runtime->calls[CALLS_UNTOLD]);
    }
    tn_ctx_close(c);
  }
}

/* Each kind, channels first, and of operands of more than a page and more than 2^20 elements. */
static void convolved(void **state) {
  static const struct {
    const char *what;
    tn_dim n, channels, h, filters;
    int kind;
    int64_t at;
  } of[] = {{"right", 3, 4, 17, 9, -2, 0},           {"data", 3, 4, 17, 9, CONV_DATA, -1},
            {"filters", 3, 4, 17, 9, CONV_FILTER, 0},  {"forward", 3, 4, 17, 9, CONV_FORWARD, -1},
            {"large", 1, 2, 730, 9, -2, 0},            {"large data", 1, 2, 730, 9, CONV_DATA, -1}};
  unsigned long seen = 0;
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!is_taken(&seen)) continue;
    tn_ctx *c = open_faulty("/dev/null", of[i].kind, of[i].at, 1e6f);
    tn_scope(c) {
      tn_tensor *x = images(c, of[i].n, of[i].channels, of[i].h, of[i].h);
      tn_tensor *w = images(c, of[i].filters, of[i].channels, 3, 3);
      tn_conv2d_options opt = {.stride = {2, 1}, .padding = {1, 2}};
      tn_tensor *y = tn_conv2d(x, w, NULL, &opt), *grad[2];
      assert_int_equal(tn_grad(tn_sum(tn_mul(y, y), NULL, 0, false), 2, (tn_tensor *[]){x, w}, grad), TN_OK);
      expect(c, tn_realize((tn_tensor *[]){y, grad[0], grad[1]}, 3),
             of[i].kind < 0 ? NULL : "the library's convolution is another one", of[i].what);
      if (of[i].kind < 0) assert_int_equal(c->runtime->calls[CALLS_RIGHT], 3);
    }
    tn_ctx_close(c);
  }
}

/* What is no number, and what cannot be told: of a product of two terms. */
static void numbers(void **state) {
  static const struct {
    const char *what;
    float x, y, got;
    tn__after after;
    tn__recomputed said;
  } of[] = {{"right", 3, 4, 13, TN__AFTER_NOTHING, TN__RECOMPUTED_RIGHT},
            {"wrong", 3, 4, 12, TN__AFTER_NOTHING, TN__RECOMPUTED_OTHER},
            {"infinite", INFINITY, 1, INFINITY, TN__AFTER_NOTHING, TN__RECOMPUTED_RIGHT},
            {"a number of an infinite one", INFINITY, 1, 1, TN__AFTER_NOTHING, TN__RECOMPUTED_OTHER},
            {"none of numbers", 1, 1, NAN, TN__AFTER_NOTHING, TN__RECOMPUTED_OTHER},
            {"too large", 1e30f, 1e30f, INFINITY, TN__AFTER_NOTHING, TN__RECOMPUTED_UNTOLD},
            {"none, and a function", NAN, 1, 0, TN__AFTER_RELU, TN__RECOMPUTED_UNTOLD},
            {"infinite, and relu", INFINITY, 1, INFINITY, TN__AFTER_RELU, TN__RECOMPUTED_RIGHT},
            {"a number of an infinite one, and relu", INFINITY, 1, 0, TN__AFTER_RELU, TN__RECOMPUTED_OTHER},
            {"below all numbers, and relu", -INFINITY, 1, 0, TN__AFTER_RELU, TN__RECOMPUTED_RIGHT},
            {"below all numbers, and no relu", -INFINITY, 1, 1, TN__AFTER_RELU, TN__RECOMPUTED_OTHER},
            {"relu", -3, 4, 0, TN__AFTER_RELU, TN__RECOMPUTED_RIGHT},
            {"no relu", -3, 4, -11, TN__AFTER_RELU, TN__RECOMPUTED_OTHER},
            {"gelu", 1, 1, 1.9545977f, TN__AFTER_GELU, TN__RECOMPUTED_RIGHT},
            {"no gelu", 1, 1, 2, TN__AFTER_GELU, TN__RECOMPUTED_OTHER}};
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    float x[] = {of[i].x, 1}, y[] = {of[i].y, 1}, z = of[i].got;
    tn__product g = {.dtype = TN_F32, .m = 1, .n = 1, .k = 2, .batch = 1, .lda = 2, .ldb = 1, .ldc = 1,
                     .a = x, .b = y, .c = &z, .after = of[i].after};
    int64_t element = -1;
    const char *why = NULL;
    tn__recomputed said = tn__recompute_product(tn__device_get(c, 0), &c->scratch, &g, &element, &why);
    bool reasoned = (said == TN__RECOMPUTED_UNTOLD) == (why != NULL);
    if (said != of[i].said || !reasoned) fail_msg("%s: %d", of[i].what, (int)said);
  }
  tn_ctx_close(c);
}

static struct {
  void (*download)(tn__device *d, void *dst, const void *src, size_t size);
  size_t bytes;
} reads;

static void count_download(tn__device *d, void *dst, const void *src, size_t size) {
  reads.bytes += size;
  reads.download(d, dst, src, size);
}

/* Of an operand as it lies, and of one whose sums go across it, about as much is read. */
static void what_is_read(void **state) {
  enum { K = 2048, N = 3000 };
  static float x[K * 4], y[(size_t)K * N], z[4 * N];
  size_t bytes[2][2];
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  tn__device_ops counting = *d->ops;
  const tn__device_ops *real = d->ops;
  reads.download = real->download, counting.download = count_download;
  d->ops = &counting;
  for (size_t i = 0; i < sizeof y / sizeof *y; i++) y[i] = (float)(i * 7919 % 5);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 31 % 7) - 2;
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++) { /* of the first and of the second, is it across? */
      tn__product g = {.dtype = TN_F32, .m = 4, .n = N, .k = K, .batch = 1, .trans_a = a, .trans_b = !b,
                       .lda = a ? 4 : K, .ldb = b ? N : K, .ldc = N, .a = x, .b = y, .c = z};
      int64_t element = -1;
      const char *why = NULL;
      memset(z, 0, sizeof z);
      for (int64_t k = 0; k < K; k++) /* of integers: exact in any order */
        for (int64_t i = 0; i < g.m; i++)
          for (int64_t j = 0; j < N; j++)
            z[tn__product_c(&g, 0, i, j)] += x[tn__product_a(&g, 0, i, k)] * y[tn__product_b(&g, 0, k, j)];
      reads.bytes = 0;
      assert_int_equal(tn__recompute_product(d, &c->scratch, &g, &element, &why), TN__RECOMPUTED_RIGHT);
      bytes[a][b] = reads.bytes;
    }
  d->ops = real;
  for (int across = 1; across < 4; across++)
    if (bytes[across / 2][across % 2] > 3 * bytes[0][0])
      fail_msg("%zu bytes as they lie, %zu across", bytes[0][0], bytes[across / 2][across % 2]);
  tn_ctx_close(c);
}

static void multiply_huge(void *arg) {
  bool strict = *(const bool *)arg;
  tn_ctx *c = open_faulty(strict ? "strict" : "1", CONV_DATA, 0, 0);
  tn_scope(c) {
    tn_tensor *x = filled(c, 20, 12), *y = tn_mul(x, tn_scalar(c, TN_F32, 1e30));
    assert_int_equal(tn_realize(&y, 1), TN_OK);
    y = tn_matmul(y, tn_transpose(y, 0, 1));
    expect(c, tn_realize(&y, 1), strict ? "a library's product, item 0, cannot be worked out again" : NULL, "huge");
  }
  tn_ctx_close(c);
}

/* What cannot be told is said, and counted at the end; where everything must be told it is an error. */
static void untold(void **state) {
  char text[4096];
  (void)state;
  for (int strict = 0; strict < 2; strict++) {
    stderr_of(multiply_huge, &(bool){strict}, text, sizeof text);
    bool said = strstr(text, "a library's product, item 0, is not worked out again") != NULL;
    if (said == strict || !strstr(text, "0 calls of libraries worked out again in a few elements, 1 could not be"))
      fail_msg("%s", text);
  }
}

/* ---- what kernels say of themselves ---- */

static void say_stored(tn__kernel *k) { memset((uint8_t *)(uintptr_t)k->buf_written, 1, k->nbuf); }
static void say_loaded(tn__kernel *k) { memset((uint8_t *)(uintptr_t)k->buf_written, 0, k->nbuf); }
static void say_half(tn__kernel *k) { ((uint8_t *)(uintptr_t)k->buf_dtype)[0] = TN_F16; }
static void say_fewer(tn__kernel *k) { k->nbuf--; }
static void shift_scratch(tn__kernel *k) { ((int64_t *)(uintptr_t)k->local_at)[0] += 4; }
static void little_scratch(tn__kernel *k) { k->scratch = k->shared = 0; }
static void no_global(tn__kernel *k) { k->part[0].global = NULL; }
static void many_threads(tn__kernel *k) { k->part[0].group = 1 << 20; }
static void much_memory(tn__kernel *k) { k->shared = k->scratch = 1 << 30; }

static void lose_scratch(tn__kernel *k) { k->nlocal--; }

static const struct {
  void (*spoil)(tn__kernel *k);
  const char *words;
} kernel_spoils[] = {
    {say_stored, "it does not say whether it stores to buffer 1"},
    {say_loaded, "it does not say whether it stores to buffer 0"},
    {say_half, "it has no such buffer as 0"},
    {say_fewer, "it has no such buffer as 2"},
    {shift_scratch, "too little room, or none that is aligned, for scratch 0"},
    {little_scratch, "too little room, or none that is aligned, for scratch 0"},
    {lose_scratch, "it has no such scratch as"},
    {no_global, "another loop is sliced"},
    {many_threads, "too many threads: 1048576"},
    {much_memory, "too much shared memory: 1073741824"},
};

static void check_facts(tn_ctx *c, void *arg) {
  tn__nodes in = {0};
  for (size_t i = 0; i < sizeof kernel_spoils / sizeof *kernel_spoils; i++) {
    tn__plan *p = tn__plan_new(c, tn__plan_key(c, &((tn_tensor *)arg)->node, 1, &in));
    tn__plan_schedule(c, p);
    tn__plan_lower(c, p, NULL);
    tn__kernel *k = p->kernel[0];
    assert_int_equal(p->nkernels, 1);
    assert_true(k->nlocal > 0);
    assert_null(tn__facts_check(&c->scratch, k, &p->dev->target));
    kernel_spoils[i].spoil(k);
    const char *said = tn__facts_check(&c->scratch, k, &p->dev->target);
    if (!said || !strstr(said, kernel_spoils[i].words)) fail_msg("'%s': %s", kernel_spoils[i].words, said);
    tn__plan_free(c, p);
    in.n = 0;
  }
}

static void facts(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = filled(c, 70, 96);
    if (!tn__ctx_run(c, "test", check_facts, tn_softmax(x, 1))) fail_msg("%s", tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(spoiled_runs), cmocka_unit_test(shared_outputs),
                                     cmocka_unit_test(parts_compared), cmocka_unit_test(recordings),
                                     cmocka_unit_test(values), cmocka_unit_test(convolutions),
                                     cmocka_unit_test(products),     cmocka_unit_test(convolved),
                                     cmocka_unit_test(numbers), cmocka_unit_test(what_is_read),
                                     cmocka_unit_test(untold),
                                     cmocka_unit_test(facts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
