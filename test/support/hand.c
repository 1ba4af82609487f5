#include "support/hand.h"
#include "device/device.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 48, MOST_ELEMENTS = 1 << 14, LONGEST_FILE = 1 << 14 };

/* ---- texts ---- */

typedef struct drawing {
  graph_dice *d;
  char *text;
} drawing;

/* The body, or the instructions that it becomes where they are one part. */
static void draw_kernel(tn_ctx *c, void *arg) {
  static const graph_size sizes[] = {
      {.nodes = 8, .outputs = 2, .longest = 40, .elements = 200, .work = 2000, .rank = 3},
      {.nodes = 5, .outputs = 2, .longest = 3000, .elements = 6000, .work = 40000, .rank = 3}, /* rows of groups */
  };
  drawing *k = arg;
  graph g;
  pipeline p = {.c = c, .dev = tn__device_get(c, 0)};
  tn__sb s;
  if (!graph_random(c, k->d, &sizes[!graph_roll(k->d, 4)], &g)) return;
  p.key = g.sink;
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  if (p.s->items.n) {
    tn_node *body = p.s->items.v[graph_roll(k->d, p.s->items.n)].body;
    if (graph_roll(k->d, 2)) {
      const tn__kernel *kernel = tn__lower(c, &c->scratch, body, &p.dev->target, NULL, 0);
      const tn__part *part = kernel->part;
      if (kernel->nparts == 1)
        body = tn__node_make(c, &(tn__make){.op = OP_SINK, .dtype = TN__VOID, .name = TN__PROGRAM_SINK,
                                            .src = part->ins, .nsrc = part->n});
    }
    tn__sb_init(&s, &c->scratch);
    tn__print(&s, body);
    k->text = strdup(tn__sb_str(&s));
  }
  graph_free(c, &g);
}

/* One of those that stand in test/programs, which share memory; NULL if they are not there. */
static char *read_program(graph_dice *d) {
  static const char *const name[] = {"tree_sum", "transpose", "segments", "segments_kernel", "lookup", "permute_rows"};
  const char *dir = getenv("TENET_TEST_DATA");
  char path[512], *text = calloc(1, LONGEST_FILE);
  if (!text) abort();
  snprintf(path, sizeof path, "%s/programs/%s.txt", dir ? dir : "test", name[graph_roll(d, 6)]);
  FILE *f = fopen(path, "rb");
  bool good = f && fread(text, 1, LONGEST_FILE - 1, f) > 0;
  if (f) fclose(f);
  if (good) return text;
  free(text);
  return NULL;
}

char *hand_draw(tn_ctx *c, graph_dice *d) {
  drawing k = {.d = d};
  char *text = graph_roll(d, 4) ? NULL : read_program(d);
  if (text) return text;
  tn_clear_error(c);
  tn__ctx_run(c, "hand_draw", draw_kernel, &k);
  return k.text;
}

/* ---- damage ---- */

typedef struct words { /* a line ends with the word "\n" */
  char (*v)[WORD];
  uint32_t n;
} words;

static void put(words *w, uint32_t at, const char *s, size_t n) {
  w->v = realloc(w->v, (w->n + 1) * sizeof *w->v);
  if (!w->v) abort();
  memmove(w->v + at + 1, w->v + at, (w->n - at) * sizeof *w->v);
  snprintf(w->v[at], WORD, "%.*s", (int)n, s);
  w->n++;
}

static void drop(words *w, uint32_t at) {
  memmove(w->v + at, w->v + at + 1, (w->n - at - 1) * sizeof *w->v);
  w->n--;
}

static words split(const char *text) {
  words w = {0};
  for (const char *at = text; *at;) {
    size_t n = *at == '\n' ? 1 : strcspn(at, " \n");
    if (*at == '#') n = strcspn(at, "\n");
    else if (n) put(&w, w.n, at, n);
    at += n;
    at += strspn(at, " ");
  }
  return w;
}

static char *joined(const words *w) {
  char *text = calloc(w->n + 1, WORD + 1), *at = text;
  if (!text) abort();
  for (uint32_t i = 0; i < w->n; i++) {
    bool ends = i + 1 == w->n || *w->v[i] == '\n' || *w->v[i + 1] == '\n';
    at += sprintf(at, ends ? "%s" : "%s ", w->v[i]);
  }
  return text;
}

/* Where the line of this word begins; where what has this name is defined, UINT32_MAX if nothing has. */
static uint32_t line_of(const words *w, uint32_t at) {
  while (at && *w->v[at - 1] != '\n') at--;
  return at;
}

static uint32_t defined_at(const words *w, const char *name) {
  for (uint32_t i = 0; i + 3 < w->n; i++)
    if ((!i || *w->v[i - 1] == '\n') && !strcmp(w->v[i], name)) return i;
  return UINT32_MAX;
}

static bool is_number(const char *s) { return s[s[0] == '-'] >= '0' && s[s[0] == '-'] <= '9'; }

static bool is_in_braces(const words *w, uint32_t at) {
  for (uint32_t i = line_of(w, at); i <= at; i++)
    if (*w->v[i] == '{') return true;
  return false;
}

static bool is_operand(const words *w, uint32_t at) {
  return at > line_of(w, at) + 3 && (*w->v[at] == '%' || is_number(w->v[at])) && !is_in_braces(w, at);
}

static bool is_argument(const words *w, uint32_t at) {
  return is_in_braces(w, at) && is_number(w->v[at]) && !strchr(w->v[at], '}');
}

static const char *type_of(const words *w, const char *operand) {
  if (is_number(operand)) return "index";
  uint32_t at = defined_at(w, operand);
  return at == UINT32_MAX ? "" : w->v[at + 3];
}

/* A word for which f holds; UINT32_MAX: a few tries found none. */
static uint32_t pick(const words *w, graph_dice *d, bool (*f)(const words *w, uint32_t at)) {
  for (int tries = 0; tries < 50; tries++) {
    uint32_t at = graph_roll(d, w->n);
    if (f(w, at)) return at;
  }
  return UINT32_MAX;
}

static void set(words *w, uint32_t at, const char *s) { snprintf(w->v[at], WORD, "%s", s); }

static void another_number(words *w, graph_dice *d, uint32_t at) {
  static const int64_t some[] = {0, 1, -1, 2, 3, 7, 8, 32, 33, 64, 1000};
  int64_t n = strtoll(w->v[at], NULL, 10);
  uint32_t how = graph_roll(d, 16);
  n = how < 11 ? some[how] : how == 11 ? n + 1 : how == 12 ? n - 1 : how == 13 ? -n : how == 14 ? 2 * n : n / 2;
  snprintf(w->v[at], WORD, "%lld", (long long)n);
}

/* Another operand of its type, as a rule. */
static void another_operand(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, is_operand), other;
  if (at == UINT32_MAX) return;
  if (is_number(w->v[at]) && graph_roll(d, 3)) {
    another_number(w, d, at);
    return;
  }
  for (int tries = 0; tries < 20; tries++) {
    other = pick(w, d, is_operand);
    if (other == UINT32_MAX || strcmp(type_of(w, w->v[at]), type_of(w, w->v[other]))) continue;
    if (*w->v[other] == '%' && defined_at(w, w->v[other]) > line_of(w, at)) continue;
    char name[WORD];
    memcpy(name, w->v[other], WORD);
    set(w, at, name);
    return;
  }
}

static void another_argument(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, is_argument);
  if (at != UINT32_MAX) another_number(w, d, at);
}

static const char *const kin[][8] = {
    {"add", "mul", "max", "min", "idiv", "mod", "div", NULL},
    {"lt", "le", "eq", "ne", NULL},
    {"and", "or", "xor", NULL},
    {"exp", "sqrt", "sin", "floor", "cast", NULL},
    {"store", "storeadd", NULL},
    {"{loop", "{upcast", "{global", "{reduce", "{unroll", "{order", NULL},
    {"output}", "reduction}", "update}", "tile}", NULL},
    {"{add}", "{mul}", "{max}", "{min}", NULL},
    {"{add", "{mul", "{max", "{min", NULL},
    {"{distinct}", "{sorted}", "{in}", NULL},
    {"f32", "f64", "i32", "i64", "u8", "bf16", "bool", NULL},
};

static const char *const *kin_of(const char *s) {
  for (size_t k = 0; k < sizeof kin / sizeof *kin; k++)
    for (int i = 0; kin[k][i]; i++)
      if (!strcmp(kin[k][i], s)) return kin[k];
  return NULL;
}

static bool has_kin(const words *w, uint32_t at) { return kin_of(w->v[at]) != NULL; }

static void another_of_its_kind(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, has_kin), n = 0;
  if (at == UINT32_MAX) return;
  const char *const *list = kin_of(w->v[at]);
  while (list[n]) n++;
  set(w, at, list[graph_roll(d, n)]);
}

/* Two buffers of one type and size, or two loops of one length, become one. */
static bool is_name_of(const words *w, uint32_t at, const char *op) {
  return at + 3 < w->n && at == line_of(w, at) && !strcmp(w->v[at + 2], op);
}
static bool is_param(const words *w, uint32_t at) { return is_name_of(w, at, "param"); }
static bool is_range(const words *w, uint32_t at) { return is_name_of(w, at, "range"); }

static void join_two(words *w, graph_dice *d) {
  bool (*of)(const words *, uint32_t) = graph_roll(d, 2) ? is_param : is_range;
  uint32_t x = pick(w, d, of);
  for (int tries = 0; tries < 20 && x != UINT32_MAX; tries++) {
    uint32_t y = pick(w, d, of);
    bool like = y != UINT32_MAX && y > x && !strcmp(w->v[x + 3], w->v[y + 3]) && !strcmp(w->v[x + 4], w->v[y + 4]);
    if (!like) continue;
    char old[WORD], name[WORD];
    memcpy(old, w->v[y], WORD);
    memcpy(name, w->v[x], WORD);
    for (uint32_t i = 0; i < w->n; i++)
      if (i != y && !strcmp(w->v[i], old)) set(w, i, name);
    return;
  }
}

static void lose_operand(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, is_operand);
  if (at != UINT32_MAX) drop(w, at);
}

static void add_operand(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, is_operand), from = pick(w, d, is_operand);
  if (at == UINT32_MAX) return;
  char name[WORD];
  memcpy(name, w->v[from == UINT32_MAX ? at : from], WORD);
  put(w, at + graph_roll(d, 2), name, strlen(name));
}

static void exchange_neighbours(words *w, graph_dice *d) {
  uint32_t at = pick(w, d, is_operand);
  char name[WORD];
  if (at == UINT32_MAX || !is_operand(w, at + 1)) return;
  memcpy(name, w->v[at], WORD);
  memcpy(w->v[at], w->v[at + 1], WORD);
  memcpy(w->v[at + 1], name, WORD);
}

static void any_word(words *w, graph_dice *d) {
  char name[WORD];
  memcpy(name, w->v[graph_roll(d, w->n)], WORD);
  set(w, graph_roll(d, w->n), name);
}

static void any_character(words *w, graph_dice *d) {
  char *word = w->v[graph_roll(d, w->n)];
  word[graph_roll(d, (uint32_t)strlen(word))] = "0123456789%[]{}-xa"[graph_roll(d, 18)];
}

char *hand_damage(graph_dice *d, const char *text) {
  static void (*const ways[])(words *, graph_dice *) = {
      another_operand, another_operand,     another_operand, join_two, join_two,     another_of_its_kind,
      lose_operand,    exchange_neighbours, add_operand,     another_argument, any_word, any_character};
  words w = split(text);
  for (uint32_t k = graph_roll(d, 4); k > 0 && w.n; k--)
    ways[graph_roll(d, graph_roll(d, 8) ? 10 : sizeof ways / sizeof *ways)](&w, d);
  char *made = joined(&w);
  free(w.v);
  return made;
}

/* ---- running ---- */

tn_ctx *hand_open(const char *device, bool watches, const char *cache) {
  const char *before = getenv("TENET_RACES");
  char *kept = before ? strdup(before) : NULL;
  setenv("TENET_RACES", watches ? "1" : "off", true);
  tn_ctx *c = tn_ctx_open(
      &(tn_options){.device = device, .mode = TN_MODE_STRICT, .cache_dir = cache, .threads = 2, .quiet = 1});
  if (kept) setenv("TENET_RACES", kept, true);
  else unsetenv("TENET_RACES");
  free(kept);
  return c;
}

/* Turns of all loops, if they were nested in each other: more than a test may take? */
static bool is_long(const words *w) {
  double turns = 1;
  for (uint32_t i = 0; i + 4 < w->n; i++) {
    if (!strcmp(w->v[i], "range") && strtod(w->v[i + 2], NULL) > 1) turns *= strtod(w->v[i + 2], NULL);
    if (!strcmp(w->v[i], "local") && strtod(w->v[i + 2], NULL) > 1 << 20) return true;
  }
  return !(turns < 1e6);
}

static bool is_used(const words *w, const char *name) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->n; i++) n += !strcmp(w->v[i], name);
  return n > 1;
}

/* A value for each buffer that the text uses.  Their number, or -1 if they take too much. */
static int give_values(tn_ctx *c, const words *w, uint64_t seed, tn_tensor **in) {
  int n = 0;
  for (uint32_t i = 0; i + 4 < w->n; i++) {
    if (i < 2 || strcmp(w->v[i], "param") || !is_used(w, w->v[i - 2])) continue;
    long long size = strtoll(w->v[i + 2], NULL, 10), slot = strtoll(w->v[i + 3] + 1, NULL, 10);
    int t = tn__dtype_parse(w->v[i + 1], strcspn(w->v[i + 1], "["));
    if (size > MOST_ELEMENTS) return -1;
    if (size < 0 || slot < 0 || slot >= HAND_BUFFERS || t < 0 || t >= TN_DTYPE_COUNT) continue;
    double *v = calloc((size_t)size + 1, sizeof *v);
    if (!v) abort();
    graph_dice d = {.state = seed + (uint64_t)slot};
    for (long long k = 0; k < size; k++) v[k] = (double)graph_roll(&d, 9) - (tn__is_float(t) ? 3 : 0);
    in[slot] = tn_cast(tn_from(c, TN_F64, (tn_dim[]){size}, 1, v), (tn_dtype)t);
    free(v);
    if (slot >= n) n = (int)slot + 1;
  }
  return n;
}

typedef struct result {
  int count; /* -1: refused, or an error */
  size_t bytes[HAND_BUFFERS];
  void *v[HAND_BUFFERS];
  int dtype[HAND_BUFFERS];
  char error[600];
} result;

static void free_result(result *r) {
  for (int i = 0; i < HAND_BUFFERS; i++) free(r->v[i]);
}

static void run_on(tn_ctx *c, const words *w, const char *text, uint64_t seed, result *r) {
  tn_clear_error(c);
  *r = (result){.count = -1};
  tn_scope(c) {
    tn_tensor *in[HAND_BUFFERS] = {0}, *out[HAND_BUFFERS] = {0};
    int n = give_values(c, w, seed, in);
    r->count = n < 0 ? -1 : tn_run_text(c, text, n, in, HAND_BUFFERS, out);
    for (int i = 0; i < r->count && i < HAND_BUFFERS; i++) {
      r->bytes[i] = tn_nbytes(out[i]);
      r->dtype[i] = (int)tn_dtype_of(out[i]);
      r->v[i] = malloc(r->bytes[i] + 1);
      if (!r->v[i]) abort();
      if (tn_read(out[i], r->v[i], r->bytes[i]) == TN_OK) continue;
      r->count = -1;
    }
    snprintf(r->error, sizeof r->error, "%s", tn_last_error(c)->text);
  }
}

/* Their bits; any NaN is like any other. */
static bool is_same(const result *x, const result *y, int i) {
  if (x->bytes[i] != y->bytes[i] || x->dtype[i] != y->dtype[i]) return false;
  size_t size = tn__size_of(x->dtype[i]);
  for (size_t at = 0; at < x->bytes[i]; at += size) {
    const char *p = (const char *)x->v[i] + at, *q = (const char *)y->v[i] + at;
    if (!memcmp(p, q, size)) continue;
    if (!tn__is_float(x->dtype[i])) return false;
    double a = tn__eval_to_double(x->dtype[i], tn__eval_load(x->dtype[i], p));
    double b = tn__eval_to_double(x->dtype[i], tn__eval_load(x->dtype[i], q));
    if (!isnan(a) || !isnan(b)) return false;
  }
  return true;
}

static bool is_own_fault(const char *error) {
  return strstr(error, "internal") || strstr(error, "is not its program") || strstr(error, "is not the graph");
}

/* What one device may refuse and another one run: turns that meet, where both look at what turns there are; and what
 * shared memory holds at first, which only interpreters see. */
static bool is_own_matter(const char *error, const tn__device *other) {
  bool race = strstr(error, "a race for") || strstr(error, "store to one place") || strstr(error, "may meet in");
  return strstr(error, "nothing was stored to") || (race && !strcmp(other->ops->name, "ref"));
}

typedef struct judging {
  const char *text;
  hand_memory *m;
  bool known, written[HAND_BUFFERS];
} judging;

static void judge(tn_ctx *c, void *arg) {
  judging *j = arg;
  tn_node *body = tn__parse(c, j->text);
  tn__nodes all = {0};
  tn__topo(&c->scratch, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_STORE || all.v[i]->op == OP_STOREADD) j->written[tn__buffer_of(all.v[i])->ints[0]] = true;
  j->known = hand_judge(c, body, j->m);
}

/* Is what came out what the text means? */
static bool is_as_meant(tn_ctx *c, const words *w, const char *text, uint64_t seed, const result *got,
                        hand_tally *tally) {
  hand_memory m = {0};
  judging j = {.text = text, .m = &m};
  result meant = {0};
  bool good = true;
  tn_clear_error(c);
  tn_scope(c) {
    tn_tensor *in[HAND_BUFFERS] = {0};
    int n = give_values(c, w, seed, in);
    for (int i = 0; i < n; i++) {
      m.bytes[i] = in[i] ? tn_nbytes(in[i]) : 0;
      m.v[i] = malloc(m.bytes[i] + 1);
      if (!m.v[i] || (in[i] && tn_read(in[i], m.v[i], m.bytes[i]) != TN_OK)) abort();
    }
  }
  if (tn__ctx_run(c, "hand_judge", judge, &j) && j.known) {
    tally->judged++;
    for (int slot = 0; slot < HAND_BUFFERS; slot++) {
      if (!j.written[slot]) continue;
      int i = meant.count++;
      meant.v[i] = m.v[slot], meant.bytes[i] = m.bytes[slot], meant.dtype[i] = got->dtype[i];
      good &= i < got->count && is_same(&meant, got, i);
    }
  }
  for (int i = 0; i < HAND_BUFFERS; i++) free(m.v[i]);
  return good;
}

bool hand_agree(tn_ctx *const *c, int n, graph_dice *d, const char *text, hand_tally *tally, char *why, size_t size) {
  words w = split(text);
  result first, other;
  uint64_t seed = graph_roll(d, 1 << 16);
  bool good = true;
  if (is_long(&w)) {
    free(w.v);
    return true;
  }
  run_on(c[0], &w, text, seed, &first);
  if (first.count < 0 && !*first.error) { /* too many elements */
    free(w.v);
    return true;
  }
  tally->texts++, tally->run += first.count >= 0;
  if (first.count >= 0 && strstr(text, "{\"kernel\"}") && !is_as_meant(c[0], &w, text, seed, &first, tally)) {
    snprintf(why, size, "ref gives another result than what the text means");
    good = false;
  }
  for (int k = 0; k < n && good; k++) {
    run_on(c[k], &w, text, seed, &other);
    const tn__device *dev = tn__device_get(c[k], 0);
    const char *device = dev->name;
    if (other.count >= 0 && first.count < 0 && is_own_matter(first.error, dev)) {
      free_result(&other);
      continue;
    }
    if (other.count < 0 && (!*other.error || is_own_fault(other.error))) {
      snprintf(why, size, "%s says '%s'", device, other.error);
      good = false;
    } else if (other.count >= 0 && other.count != first.count) {
      snprintf(why, size, "%s gives %d, ref %d: %s", device, other.count, first.count, first.error);
      good = false;
    }
    for (int i = 0; i < other.count && good; i++) {
      good = is_same(&first, &other, i);
      tally->compared += good && k;
      if (!good) snprintf(why, size, "%s gives another output %d than ref", device, i);
    }
    free_result(&other);
  }
  free_result(&first);
  free(w.v);
  return good;
}
