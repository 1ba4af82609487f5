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
    [TN__STAGE_PROGRAM] = "program",
};

static const struct {
  const char *sink;
  void (*check)(tn_ctx *c, tn_node *root);
} stages[TN__STAGES] = {
    [TN__STAGE_GRAPH] = {"outputs", tn__spec_tensor},
    [TN__STAGE_SCHEDULE] = {"schedule", tn__spec_schedule},
    [TN__STAGE_KERNEL] = {"kernel", tn__spec_kernel},
    [TN__STAGE_PART] = {"part", tn__spec_kernel},
    [TN__STAGE_PROGRAM] = {TN__PROGRAM_SINK, tn__spec_program},
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
  tn__section s = {.line = line, .stage = TN__STAGES};
  tn_status status;
  tn__map_init(&s.line_of, &c->scratch);
  s.root = tn__parse_lines(c, text, &s.line_of);
  for (int i = 0; i < TN__STAGES; i++)
    if (s.root->op == OP_SINK && !strcmp(s.root->name ? s.root->name : "", stages[i].sink)) s.stage = (tn__stage)i;
  if (s.root->op != OP_SINK && s.root->dtype != TN__VOID) s.stage = TN__STAGE_GRAPH;
  if (s.stage == TN__STAGES)
    tn__fail(c, TN_EFORMAT, "line %d: the root is neither a graph's, nor a schedule's, nor a kernel's", line);
  bool pending = c->err.status != TN_OK;
  if (!tn__mem_try(&c->mem, check_section, &(checking){c, &s}, &status)) {
    if (pending || status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
    const char *why = tn__arena_strdup(&c->scratch, tn__error_words(c));
    size_t own = strlen(TN__SPEC_FAULT);
    if (!strncmp(why, TN__SPEC_FAULT, own)) why += own;
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

int tn__section_line(const tn__section *s, const tn_node *n) {
  uint64_t line;
  return tn__map_get(&s->line_of, (uintptr_t)n, &line) ? (int)line : s->line;
}

static void check_slot(tn_ctx *c, const tn__section *s, const tn_node *n, int64_t nbuf) {
  if (n->op == OP_PARAM && (n->ints[0] < 0 || n->ints[0] >= nbuf))
    tn__fail(c, TN_EFORMAT, "line %d: the kernel has %lld buffers, and uses one of number %lld",
             tn__section_line(s, n), (long long)nbuf, (long long)n->ints[0]);
}

/* Passes may compute a loop's length elsewhere, or take two loops for one. */
static bool is_loaded(tn_ctx *c, tn_node *length) {
  tn__nodes all = {0};
  bool loads = false;
  tn__topo(&c->scratch, &length, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) loads |= all.v[i]->op == OP_LOAD || all.v[i]->op == OP_REDUCE;
  return loads;
}

/* Each loop ends somewhere: with the reductions or stores that name it, and no store stands in another one's. */
static void check_closed(tn_ctx *c, const tn__section *s, tn_node *body) {
  tn__ranges r;
  tn__ranges_find(c, &c->scratch, body, &r);
  for (uint32_t i = 0; i < r.order.n; i++) {
    const tn_node *n = r.order.v[i];
    bool effect = n->op == OP_STORE || n->op == OP_STOREADD || n->op == OP_SINK;
    uint64_t open = effect ? tn__free_of(&r, n) : 0;
    if (!open) continue;
    tn__fail(c, TN_EFORMAT,
             "line %d: a %s runs over loop %lld and does not end it: loops stand behind what is stored, as in "
             "%s void %%b %%r %%x %%r",
             tn__section_line(s, n), tn__ops[n->op].text, tn__id_of(r.range[__builtin_ctzll(open)]),
             tn__ops[n->op].text);
  }
}

void tn__section_body(tn_ctx *c, const tn__section *s, tn_node *body, int64_t nbuf) {
  tn__nodes order = {0};
  tn__topo(&c->scratch, &body, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const tn_node *n = order.v[i];
    int line = tn__section_line(s, n);
    check_slot(c, s, n, nbuf);
    bool plain = n->op != OP_LOCAL;
    if (n->op == OP_RANGE) plain = tn__axis_of(n) == AX_LOOP || tn__is_inner(n);
    if (n->op == OP_RANGE && is_loaded(c, n->src[0]))
      tn__fail(c, TN_EFORMAT, "line %d: a loop's length is a size, not what is loaded: gate a longer loop", line);
    if (n->op == OP_RANGE && n->src[0]->hi < 0)
      tn__fail(c, TN_EFORMAT, "line %d: the length of loop %lld is negative", line, (long long)n->ints[RANGE_ID]);
    if (!plain) tn__fail(c, TN_EFORMAT, "line %d: no kernel of a schedule has such a %s", line, tn__ops[n->op].text);
  }
  bool stores = false;
  for (uint32_t i = 0; i < body->nsrc; i++) stores |= body->src[i]->op != OP_REQUIRE;
  if (!stores) tn__fail(c, TN_EFORMAT, "line %d: the kernel stores nothing", tn__section_line(s, body));
  check_closed(c, s, body);
}

/* ---- programs ---- */

/* What is wrong with an instruction of a user's program; NULL: nothing.  around: the loops that are open. */
static const char *fault_of(const tn_node *n, const tn__nodes *around) {
  bool in_lanes = around->n && around->v[around->n - 1]->ints[RANGE_AXIS] == AX_UPCAST;
  switch (n->op) {
  case OP_RANGE:
    if (in_lanes) return "threads' loops hold no loops";
    if (n->ints[RANGE_AXIS] == AX_UNROLL) return "no loop is unrolled by hand";
    if (n->ints[RANGE_AXIS] == AX_GLOBAL && around->n) return "the groups' loop is the outermost";
    if (!tn__is_const(n->src[0])) return "loops have constant lengths";
    return n->src[0]->lo < 1 || n->src[0]->lo > INT32_MAX ? "a loop's length is 1 to 2147483647" : NULL;
  case OP_ACC: return n->ints[1] != 1 || n->ints[2] != 1 ? "an accumulator has one cell: {number 1 1}" : NULL;
  case OP_SETACC: case OP_GETACC: return n->nsrc > 2 ? "an accumulator has one cell" : NULL;
  case OP_REQUIRE: return around->n ? "what is required stands outside of all loops" : NULL;
  case OP_BARRIER: return in_lanes ? "a barrier stands between threads' loops" : NULL;
  default: return NULL;
  }
}

/* What each group would do by itself, or carry from one of its turns to the next */
static bool is_for_one_group(const tn_node *n) {
  bool groups = n->op == OP_RANGE && n->ints[RANGE_AXIS] == AX_GLOBAL;
  return n->op == OP_STORE || n->op == OP_STOREADD || n->op == OP_ACC || n->op == OP_BARRIER ||
         (n->op == OP_RANGE && !groups);
}

/* Scratch memory is numbered from 0, and belongs to the group. */
static const char *fault_of_locals(const tn__nodes *all) {
  uint32_t count = 0;
  uint64_t seen = 0;
  for (uint32_t i = 0; i < all->n; i++) count += all->v[i]->op == OP_LOCAL;
  for (uint32_t i = 0; i < all->n; i++) {
    const tn_node *n = all->v[i];
    if (n->op != OP_LOCAL) continue;
    if (count > 64 || n->ints[0] < 0 || n->ints[0] >= count || (seen >> n->ints[0] & 1))
      return "locals are numbered from 0, up to 63";
    if (n->ints[1] || n->nsrc > 1) return "a local is the group's: {number 0}";
    if (!tn__is_const(n->src[0]) || n->src[0]->lo < 1 || n->src[0]->lo > 1 << 20)
      return "a local has 1 to 2^20 elements";
    seen |= UINT64_C(1) << n->ints[0];
  }
  return NULL;
}

/* What has a value is where it stands: written again it would be the same node, and have the value that it had.  What
 * has none is done again, and constants and buffers are no instructions. */
static void check_again(tn_ctx *c, const tn__section *s, tn__map *at, const tn_node *n, uint32_t i) {
  uint64_t first, key = (uint64_t)(uintptr_t)n;
  bool value = n->dtype != TN__VOID && n->nsrc && n->op != OP_PARAM && n->op != OP_LOCAL;
  if (value && tn__map_get(at, key, &first))
    tn__fail(c, TN_EFORMAT,
             "line %d: instruction %u, %s: instruction %u is the same already, and a value has one place",
             tn__section_line(s, n), i, tn__ops[n->op].text, (uint32_t)first);
  tn__map_put(at, key, i);
}

void tn__section_program(tn_ctx *c, const tn__section *s, tn_node *program, int64_t nbuf) {
  tn__nodes all = {0}, around = {0};
  bool stores = false;
  int64_t groups = 0, outside = 0;
  tn__map at;
  tn__map_init(&at, &c->scratch);
  tn__topo(&c->scratch, &program, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) check_slot(c, s, all.v[i], nbuf);
  const char *fault = fault_of_locals(&all);
  if (fault) tn__fail(c, TN_EFORMAT, "line %d: %s", tn__section_line(s, program), fault);
  for (uint32_t i = 0; i < program->nsrc; i++) {
    const tn_node *n = program->src[i];
    stores |= n->op == OP_STORE || n->op == OP_STOREADD;
    groups += n->op == OP_RANGE && n->ints[RANGE_AXIS] == AX_GLOBAL;
    outside += !around.n && is_for_one_group(n);
    fault = fault_of(n, &around);
    if (groups && outside) fault = "beside the groups' loop there is no other loop, store, accumulator or barrier";
    if (groups > 1) fault = "there is one groups' loop";
    if (fault)
      tn__fail(c, TN_EFORMAT, "line %d: instruction %u, %s: %s", tn__section_line(s, n), i + 1, tn__ops[n->op].text,
               fault);
    check_again(c, s, &at, n, i + 1);
    tn__loops_pass(&c->scratch, &around, program->src[i]);
  }
  if (!stores) tn__fail(c, TN_EFORMAT, "line %d: the program stores nothing", tn__section_line(s, program));
}
