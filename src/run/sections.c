/* Text of stages, cut into its sections, each read and checked. */
#include "run/sections.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "lower/lower.h"
#include <string.h>

const char *const tn__stage_names[TN__STAGES] = {
    [TN__STAGE_GRAPH] = "graph",
    [TN__STAGE_SCHEDULE] = "schedule",
    [TN__STAGE_KERNEL] = "kernel",
    [TN__STAGE_PART] = "optimised kernel",
};

static const struct {
  const char *sink;
  void (*check)(tn_ctx *c, tn_node *root);
} stages[TN__STAGES] = {
    [TN__STAGE_GRAPH] = {"outputs", tn__spec_tensor},
    [TN__STAGE_SCHEDULE] = {"schedule", tn__spec_schedule},
    [TN__STAGE_KERNEL] = {"kernel", tn__spec_kernel},
    [TN__STAGE_PART] = {"part", tn__spec_kernel},
};

typedef struct checking {
  tn_ctx *c;
  const tn__section *s;
} checking;

static void check_section(void *arg) {
  const checking *k = arg;
  stages[k->s->stage].check(k->c, k->s->root);
}

/* In a text of the user's, what a stage does not allow is no fault of Tenet's. */
static void add_section(tn_ctx *c, tn__sections *all, const char *text, int line) {
  tn__section s = {.line = line, .root = tn__parse(c, text), .stage = TN__STAGES};
  tn_status status;
  for (int i = 0; i < TN__STAGES; i++)
    if (s.root->op == OP_SINK && !strcmp(s.root->name ? s.root->name : "", stages[i].sink)) s.stage = (tn__stage)i;
  if (s.root->op != OP_SINK && s.root->dtype != TN__VOID) s.stage = TN__STAGE_GRAPH;
  if (s.stage == TN__STAGES)
    tn__fail(c, TN_EFORMAT, "line %d: the root is neither a graph's, nor a schedule's, nor a kernel's", line);
  bool pending = c->err.status != TN_OK;
  if (!tn__mem_try(&c->mem, check_section, &(checking){c, &s}, &status)) {
    if (pending || status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
    const char *why = tn__arena_strdup(&c->scratch, c->err.text);
    tn_clear_error(c);
    tn__fail(c, TN_EFORMAT, "line %d: no %s: %s", line, tn__stage_names[s.stage], why);
  }
  tn__vec_push(&c->scratch, all, s);
}

static bool is_blank(const char *line) { /* the end of the text counts, too */
  return strchr("#\n", line[strspn(line, " \t\r")]) != NULL;
}

tn__sections tn__sections_read(tn_ctx *c, const char *text) {
  tn__sections all = {0};
  tn__sb part; /* with the lines before it left empty, so that errors name the right one */
  int line = 0, last = 0;
  tn__sb_init(&part, &c->scratch);
  for (const char *at = text; *at && strncmp(at, "# source", 8);) {
    size_t n = strcspn(at, "\n");
    if (last && !strncmp(at, "%1 ", 3)) {
      add_section(c, &all, tn__sb_str(&part), last);
      tn__sb_init(&part, &c->scratch);
      for (int i = 0; i < line; i++) tn__sb_putc(&part, '\n');
    }
    line++;
    if (!is_blank(at)) {
      tn__sb_putn(&part, at, n);
      last = line;
    }
    tn__sb_putc(&part, '\n');
    at += n + (at[n] != 0);
  }
  if (last) add_section(c, &all, tn__sb_str(&part), last);
  if (!all.n) tn__fail(c, TN_EFORMAT, "the text holds no node");
  return all;
}

void tn__section_body(tn_ctx *c, tn_node *body, int64_t nbuf, int line) {
  tn__nodes order = {0};
  tn__topo(&c->scratch, &body, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const tn_node *n = order.v[i];
    if (n->op == OP_PARAM && (n->ints[0] < 0 || n->ints[0] >= nbuf))
      tn__fail(c, TN_EFORMAT, "line %d: the kernel has %lld buffers, and uses one of number %lld", line,
               (long long)nbuf, (long long)n->ints[0]);
    bool plain = n->op != OP_LOCAL;
    if (n->op == OP_RANGE) plain = tn__axis_of(n) == AX_LOOP || tn__is_inner(n);
    if (!plain) tn__fail(c, TN_EFORMAT, "line %d: no kernel of a schedule has such a %s", line, tn__ops[n->op].text);
  }
  if (!body->nsrc) tn__fail(c, TN_EFORMAT, "line %d: the kernel stores nothing", line);
}
