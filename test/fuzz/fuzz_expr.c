/* Expressions and their text.  A first byte of 0 to 127: the rest is text for the parser.  Else it builds a graph, and
 * what it prints must come back as the same nodes.  The parser may not crash, nor take memory out of proportion to its
 * text. */
#include "ir/text.h"
#include "support/ctx.h"
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 8 << 20, MEMORY_PER_BYTE = 8192, MOST_NODES = 300, MOST_SOURCES = 6, MOST_INTS = 4 };

typedef struct input {
  const uint8_t *at, *end;
} input;

static uint8_t byte(input *in) {
  return in->at < in->end ? *in->at++ : 0;
}

static int64_t number(input *in) {
  uint8_t kind = byte(in);
  if (kind < 200) return kind % 9 - 1;
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v = v << 8 | byte(in);
  return (int64_t)(v >> (kind % 64));
}

typedef struct job {
  const char *text;
  tn_node *node;
  tn__make make;
  tn__sb printed;
} job;

static void parse(tn_ctx *c, void *arg) {
  job *j = arg;
  j->node = tn__parse(c, j->text);
}

static void make(tn_ctx *c, void *arg) {
  job *j = arg;
  const tn__make *m = &j->make;
  j->node = m->op == OP_CONST ? tn__const_bits(c, m->dtype, (uint64_t)m->ints[0]) : tn__node_make(c, m);
}

static void print(tn_ctx *c, void *arg) {
  job *j = arg;
  tn__sb_init(&j->printed, &c->scratch);
  tn__print(&j->printed, j->node);
}

static void insist(bool good) {
  if (!good) abort();
}

static void round_trip(tn_ctx *c, tn_node *n) {
  job out = {.node = n};
  insist(tn__ctx_run(c, "print", print, &out));
  job in = {.text = tn__sb_str(&out.printed)};
  insist(tn__ctx_run(c, "parse", parse, &in) && in.node == n);
}

static void fuzz_graph(tn_ctx *c, input *in) {
  tn_node *pool[MOST_NODES];
  uint32_t n = 0;
  while (in->at < in->end && n < MOST_NODES) {
    tn_node *src[MOST_SOURCES];
    int64_t ints[MOST_INTS];
    char name[4] = {(char)byte(in), (char)byte(in), 0};
    job j = {.make = {.op = (tn__op)(byte(in) % OP_COUNT),
                      .dtype = byte(in) % TN__DTYPE_ALL,
                      .src = src,
                      .ints = ints,
                      .name = name}};
    const tn__op_info *op = &tn__ops[j.make.op];
    uint8_t counts = byte(in);
    uint32_t more = op->max_src - op->min_src;
    j.make.nsrc = op->min_src + (more ? counts % (more + 1) % (MOST_SOURCES - 2) : 0);
    j.make.nint = op->arg == ARG_NONE ? 0 : counts / 16 % (MOST_INTS + 1);
    if (j.make.op == OP_CONST) {
      j.make.nint = 1;
      j.make.dtype %= TN__VOID;
    }
    if (*name == TN__STAND_IN) *name = 'x'; /* the verifier's, which no text has */
    if (j.make.nsrc && !n) continue;
    for (uint32_t i = 0; i < j.make.nsrc; i++) src[i] = pool[n - 1 - byte(in) % n];
    for (uint32_t i = 0; i < MOST_INTS; i++) ints[i] = i < j.make.nint ? number(in) : 0;
    if (tn__ctx_run(c, "make", make, &j)) pool[n++] = j.node;
    tn_clear_error(c);
  }
  if (n) round_trip(c, pool[n - 1]);
}

static void fuzz_text(tn_ctx *c, const char *text) {
  job j = {.text = text};
  bool good = tn__ctx_run(c, "parse", parse, &j);
  if (good)
    round_trip(c, j.node);
  else
    insist(tn_last_error(c)->status == TN_EFORMAT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_ctx c;
  if (size == 0 || !test_ctx_open(&c)) return 0;
  c.depth = 1; /* nodes stay until the end */
  input in = {data + 1, data + size};
  if (data[0] >= 128) {
    fuzz_graph(&c, &in);
  } else {
    char *text = malloc(size);
    insist(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    c.mem.limit = MEMORY + MEMORY_PER_BYTE * size;
    fuzz_text(&c, text);
    free(text);
  }
  insist(test_ctx_close(&c) == 0);
  return 0;
}
