/* A plan as translation validation wants it (verify/verify.h), and what becomes of the verdict. */
#include "run/plan.h"
#include "verify/readback.h"
#include "verify/scale.h"
#include "verify/verify.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tn__verify_item subject_item(tn_ctx *c, tn__plan *p, uint32_t i) {
  static const tn__target plain = {.interprets = true};
  const tn__item *it = &p->s->items.v[i];
  const tn__step *st = &p->step[i];
  int *block = tn__alloc(c, (st->nbuf + 1) * sizeof *block);
  for (uint32_t b = 0; b < st->nbuf; b++) block[b] = (int)tn__plan_number(p, st->buf[b]);
  tn__verify_item x = {.block = block, .nbuf = st->nbuf, .row = -1};
  x.kernel = st->kernel >= 0 ? p->kernel[st->kernel] : tn__lower(c, &c->scratch, it->body, &plain, NULL, i);
  if (st->kernel < 0 && it->gemm) {
    x.product = &st->product;
    x.a = it->gemm->a.buf;
    x.b = it->gemm->b.buf;
    x.c = it->gemm->c;
    x.row = it->gemm->row;
  }
  if (st->kernel < 0 && it->conv) x.conv = &st->conv;
  for (int o = 0; x.conv && o < 3; o++) x.operand[o] = it->conv->operand[o].buf;
  return x;
}

/* One world: the blocks and products are at its sizes. */
static void measure_subject(tn_ctx *c, tn__plan *p, tn__verify_subject *s) {
  tn__plan_measure(c, p);
  s->arena = p->temp_size;
  for (uint32_t b = 0; b < s->nblock; b++) {
    s->block[b].bytes = p->bytes[b];
    s->block[b].offset = p->offset[b];
  }
  for (uint32_t i = 0; i < s->nitem; i++) {
    if (p->step[i].kernel >= 0) continue;
    tn__plan_bind_call(c, p, i);
    s->item[i].a_off = p->step[i].a_off;
    s->item[i].b_off = p->step[i].b_off;
    memcpy(s->item[i].conv_off, p->step[i].conv_off, sizeof s->item[i].conv_off);
  }
}

/* TENET_VERIFY names a file, but for these. */
static bool is_word(const char *verify) { return !strcmp(verify, "1") || !strcmp(verify, "strict"); }

/* At once: programs run side by side.  False: errno says why not. */
static bool append(const char *path, const char *text) {
  size_t n = strlen(text);
  int f = n ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (f < 0) return !n;
  while (n) {
    ssize_t done = write(f, text, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    text += done, n -= (size_t)done;
  }
  return close(f) == 0 && !n;
}

/* To the file that TENET_VERIFY names, if it does, or to the one with the ending behind that name */
static void note(tn_ctx *c, const char *ending, const char *text) {
  tn__sb path;
  if (is_word(c->opt.verify)) return;
  tn__sb_init(&path, &c->scratch);
  tn__sb_printf(&path, "%s%s", c->opt.verify, ending);
  errno = 0;
  if (!append(tn__sb_str(&path), text))
    tn__fail(c, TN_EIO, "what TENET_VERIFY found cannot be written to %s: %s", tn__sb_str(&path),
             errno ? strerror(errno) : "nothing was written");
}

/* Nothing that is not compared goes by in silence. */
static void count(tn_ctx *c, const tn__plan *p, const tn__verdict *v, bool twin) {
  struct tn__runtime *rt = c->runtime;
  rt->verified[v->result]++;
  rt->twins += twin;
  rt->accesses[0] += v->accesses;
  rt->accesses[1] += v->accesses - v->proved;
  rt->stores[0] += v->writers.stores;
  rt->stores[1] += v->writers.by_form;
  rt->stores[2] += v->writers.by_trying;
  if (v->result != TN__VERIFY_UNKNOWN) return;
  if (!strcmp(c->opt.verify, "strict"))
    tn__fail(c, TN_ECOMPILE, "the schedule cannot be compared with its graph: %s", v->why);
  fprintf(stderr, "tenet: %s: a schedule of %u items is not compared with its graph: %s\n", p->dev->name, p->s->items.n,
          v->why);
}

/* What nothing above has looked at. */
static void say_rest(const struct tn__runtime *rt) {
  if (rt->accesses[1])
    fprintf(stderr, "tenet: %u of %u accesses are not proved to stay within their buffers; TENET_VERIFY=FILE writes "
            "what a solver has to show\n", rt->accesses[1], rt->accesses[0]);
  if (rt->unread) fprintf(stderr, "tenet: %u kernels have no text that is read back\n", rt->unread);
}

void tn__validate_close(tn_ctx *c) {
  const struct tn__runtime *rt = c->runtime;
  const uint32_t *n = rt->verified, *t = rt->texts;
  uint32_t all = n[TN__VERIFY_EQUAL] + n[TN__VERIFY_DIFFERS] + n[TN__VERIFY_UNKNOWN];
  if (!all) return;
  if (!is_word(c->opt.verify)) {
    char line[240];
    const char *device = tn__device_get(c, 0)->name;
    snprintf(line, sizeof line, "seconds %s compiling %.3f comparing %.3f\ncalls %s right %u untold %u recorded %u\n",
             device, rt->spent[0], rt->spent[1], device, rt->calls[CALLS_RIGHT], rt->calls[CALLS_UNTOLD],
             rt->calls[CALLS_RECORDED]);
    if (!append(c->opt.verify, line))
      fprintf(stderr, "tenet: the last lines of TENET_VERIFY cannot be written to %s\n", c->opt.verify);
    return;
  }
  fprintf(stderr, "tenet: %u schedules compared with their graphs: %u equal (%u by a smaller twin), %u differ, %u not "
          "compared\n", all, n[TN__VERIFY_EQUAL], rt->twins, n[TN__VERIFY_DIFFERS], n[TN__VERIFY_UNKNOWN]);
  fprintf(stderr, "tenet: %u stores by turns that may run at once: %u to places of their own by form, %u by "
          "trying all, %u left to a solver (docs/validation.md)\n", rt->stores[0], rt->stores[1], rt->stores[2],
          rt->stores[0] - rt->stores[1] - rt->stores[2]);
  fprintf(stderr, "tenet: %u calls of libraries worked out again in a few elements, %u could not be, %u recorded\n",
          rt->calls[CALLS_RIGHT], rt->calls[CALLS_UNTOLD], rt->calls[CALLS_RECORDED]);
  fprintf(stderr, "tenet: %u texts of kernels read back: %u equal, %u exempt for the helper texts", t[TN__READ_EQUAL] +
          t[TN__READ_EXEMPT] + t[TN__READ_TOO_LONG], t[TN__READ_EQUAL], t[TN__READ_EXEMPT]);
  for (int i = 0; tn__readback_exempt[i]; i++) fprintf(stderr, " %s*", tn__readback_exempt[i]);
  fprintf(stderr, ", %u too long\n", t[TN__READ_TOO_LONG]);
  say_rest(rt);
  fprintf(stderr, "tenet: %.2f s of compiling, %.2f s of comparing\n", rt->spent[0], rt->spent[1]);
}

static void report(tn_ctx *c, const tn__plan *p, const tn__verdict *v, bool twin) {
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, "%s mode %d items %u %s\n", p->dev->name, (int)c->mode, p->s->items.n, tn__verify_line(c, v));
  note(c, "", tn__sb_str(&s));
  note(c, ".smt2", v->open);
  count(c, p, v, twin);
  if (v->result == TN__VERIFY_DIFFERS) tn__fail(c, TN_ECOMPILE, "the schedule is not the graph: %s", v->why);
}

/* `least`: at the least of symbolic sizes.  `last`: nothing smaller will be tried, so it may take long. */
static tn__verdict verdict_of(tn_ctx *c, tn__plan *p, bool least, bool last) {
  uint32_t nb = p->s->bufs.n;
  tn__verify_subject s = {.graph = p->key,
                          .view = p->view,
                          .numbers = p->exponentials,
                          .nblock = nb + p->scratch.n,
                          .nitem = p->s->items.n,
                          .var = p->var.v,
                          .value = p->value,
                          .nvar = p->var.n,
                          .needs = &p->needs,
                          .last = last};
  s.block = tn__arena_zalloc(&c->scratch, (s.nblock + 1) * sizeof *s.block);
  s.item = tn__arena_zalloc(&c->scratch, (s.nitem + 1) * sizeof *s.item);
  for (uint32_t b = 0; b < s.nblock; b++) {
    const tn__buf *x =
        b < nb ? &p->s->bufs.v[b]
               : &(tn__buf){.kind = BUF_TEMP, .dtype = p->scratch_dtype.v[b - nb], .size = p->scratch.v[b - nb]};
    s.block[b] = (tn__verify_block){.kind = x->kind,
                                    .slot = x->slot,
                                    .dtype = x->dtype,
                                    .size = x->size,
                                    .shared = x->shared,
                                    .of = x->of,
                                    .from = x->from};
  }
  for (uint32_t i = 0; i < s.nitem; i++) s.item[i] = subject_item(c, p, i);
  tn__verify *v = tn__verify_open(c, &s);
  for (uint32_t world = 0; world < TN__VERIFY_WORLDS; world++) {
    if (!tn__verify_sizes(c, p->var.v, p->var.n, &p->needs, least ? TN__VERIFY_LEAST : world, p->value))
      tn__verify_give_up(v, "no small sizes are what the graph needs");
    else measure_subject(c, p, &s);
    if (!tn__verify_run(v, world)) break;
  }
  return *tn__verify_close(v);
}

/* ---- what is too large ---- */

typedef struct pairing {
  tn_ctx *c;
  tn_node *key;
  bool least; /* at the least of symbolic sizes */
  tn__plan *twin;
  tn__verdict verdict;
} pairing;

static void compare_twin(void *arg) {
  pairing *t = arg;
  t->twin = tn__plan_new(t->c, t->key);
  tn__plan_schedule(t->c, t->twin);
  tn__plan_lower(t->c, t->twin, NULL);
  t->verdict = verdict_of(t->c, t->twin, t->least, true);
}

/* Does the graph say of places that they differ, or of two ways that they are as good?  A sort makes either of sizes
 * that stand in it as numbers, too, which do not shrink: at smaller sizes it need not be so, and what is unlike there
 * tells nothing. */
static bool claims_places(tn_ctx *c, tn_node *graph) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PERMUTATION || all.v[i]->op == OP_DISTINCT || all.v[i]->op == OP_SPANS ||
        all.v[i]->op == OP_EITHER)
      return true;
  return false;
}

/* The same program with smaller sizes goes through the same passes, and that is compared.  False: it is no small one.
 */
static bool try_twin(tn_ctx *c, tn__plan *p, bool least, tn__verdict *v) {
  tn__sb words;
  tn_status status;
  tn__sb_init(&words, &c->scratch);
  tn__sb_puts(&words, "at smaller sizes,");
  if (!tn__verify_sizes(c, p->var.v, p->var.n, &p->needs, least ? TN__VERIFY_LEAST : TN__VERIFY_GREATEST, p->value))
    return false;
  pairing t = {.c = c, .least = least};
  t.key = tn__scale_down(c, p->key, &(tn__env){p->var.v, p->value, p->var.n}, &words);
  if (!t.key) return false;
  bool good = tn__mem_try(&c->mem, compare_twin, &t, &status);
  tn__plan_free(c, t.twin);
  if (!good) tn__mem_throw(&c->mem, status);
  if (t.verdict.result == TN__VERIFY_DIFFERS && claims_places(c, p->key))
    t.verdict = (tn__verdict){.result = TN__VERIFY_UNKNOWN, .why = "not the same, whose places need not differ"};
  if (t.verdict.result == TN__VERIFY_UNKNOWN) {
    tn__sb_printf(&words, " is %s", t.verdict.why);
    v->why = tn__sb_str(&words);
    return false;
  }
  if (t.verdict.why) tn__sb_printf(&words, ": %s", t.verdict.why);
  *v = t.verdict;
  v->why = tn__sb_str(&words);
  return true;
}

/* What the printer made of the kernels, too. */
static void read_texts(tn_ctx *c, tn__plan *p) {
  uint32_t n[TN__READ_RESULTS] = {0};
  tn__sb s;
  c->runtime->unread += tn__plan_read_texts(c, p, n);
  for (int i = 0; i < TN__READ_RESULTS; i++) c->runtime->texts[i] += n[i];
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, "texts %s equal %u exempt %u long %u\n", p->dev->name, n[TN__READ_EQUAL], n[TN__READ_EXEMPT],
                n[TN__READ_TOO_LONG]);
  note(c, "", tn__sb_str(&s));
  if (!n[TN__READ_TOO_LONG]) return;
  if (!strcmp(c->opt.verify, "strict")) tn__fail(c, TN_ECOMPILE, "a kernel's text takes too long to be read back");
  fprintf(stderr, "tenet: %s: texts of %u kernels take too long to be read back\n", p->dev->name,
          n[TN__READ_TOO_LONG]);
}

static void compare(void *arg) {
  tn__plan *p = arg;
  tn_ctx *c = p->dev->ctx;
  tn__verdict v = verdict_of(c, p, false, false);
  bool twin = v.result == TN__VERIFY_UNKNOWN && v.large && (try_twin(c, p, false, &v) || try_twin(c, p, true, &v));
  report(c, p, &v, twin);
  read_texts(c, p);
}

/* In a scratch of its own, which goes at once and does not count against the limit.  Memory that runs out is an error
 * as elsewhere: what runs has been compared. */
void tn__plan_validate(tn_ctx *c, tn__plan *p) {
  tn__arena scratch = c->scratch;
  size_t limit = c->mem.limit;
  tn_status status = TN_OK;
  c->mem.limit = 0;
  tn__arena_init(&c->scratch, &c->mem);
  tn__mem_try(&c->mem, compare, p, &status);
  tn__arena_free(&c->scratch);
  c->scratch = scratch;
  c->mem.limit = limit;
  if (status != TN_OK) tn__mem_throw(&c->mem, status);
}
