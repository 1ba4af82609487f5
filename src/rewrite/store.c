#include "rewrite/store.h"
#include "rewrite/match.h"
#include "tenet_embed.h"
#include <string.h>

struct tn__rules {
  tn__arena tables, work;
  tn__ruleset *sets;
};

static const struct {
  const char *name, *text;
} built_in[] = {
    {"index", tn__embed_index_rules},
    {"simplify", tn__embed_simplify_rules},
    {"float", tn__embed_float_rules},
    {"gradient", tn__embed_gradient_rules},
    {"lemmas", tn__embed_lemmas_rules},
    {"harmless", tn__embed_harmless_rules},
};

static struct tn__rules *rules(tn_ctx *c) {
  if (!c->rules) {
    c->rules = tn__mem_zalloc(&c->mem, sizeof *c->rules);
    tn__arena_init(&c->rules->tables, &c->mem);
    tn__arena_init(&c->rules->work, &c->mem);
  }
  return c->rules;
}

void tn__rules_close(tn_ctx *c) {
  if (!c->rules) return;
  tn__arena_free(&c->rules->tables);
  tn__arena_free(&c->rules->work);
  tn__mem_free(&c->mem, c->rules);
  c->rules = NULL;
}

tn__arena *tn__rules_work(tn_ctx *c) {
  tn__arena *a = &rules(c)->work;
  tn__arena_reset(a);
  return a;
}

tn__ruleset *tn__rules_parse(tn_ctx *c, const char *name, const char *text) {
  struct tn__rules *r = rules(c);
  tn__ruleset *s = tn__table_parse(c, &r->tables, name, text);
  s->next = r->sets;
  return r->sets = s;
}

tn__ruleset *tn__rules_get(tn_ctx *c, const char *name) {
  for (tn__ruleset *s = rules(c)->sets; s; s = s->next)
    if (!strcmp(s->name, name)) return s;
  for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
    if (!strcmp(built_in[i].name, name)) return tn__rules_parse(c, name, built_in[i].text);
  tn__fail(c, TN_EINVAL, "there is no rule table '%s'", name);
}

uint32_t tn__rules_count(const tn__ruleset *s) { return s->n; }
const char *tn__rules_name(const tn__ruleset *s, uint32_t i) { return s->rule[i].name; }
uint64_t tn__rules_hits(const tn__ruleset *s, uint32_t i) { return s->rule[i].hits; }

/* NULL if there is none. */
static tn__rule *gradient_row(tn_ctx *c, tn__op op, uint32_t k) {
  const tn__ruleset *s = tn__rules_get(c, "gradient");
  for (uint32_t i = s->first[op]; i < s->first[op + 1]; i++) {
    tn__rule *r = &s->rule[s->by_op[i]];
    if (r->verdict != TV_RULE && r->src == k) return r;
  }
  return NULL;
}

bool tn__rules_no_gradient(tn_ctx *c, tn__op op, uint32_t k) {
  const tn__rule *r = gradient_row(c, op, k);
  return r && r->verdict == TV_ZERO;
}

tn_node *tn__rules_gradient(tn_ctx *c, tn_node *node, uint32_t k, tn_node *g) {
  tn__rule *r = gradient_row(c, (tn__op)node->op, k);
  if (!r) tn__fail(c, TN_EGRAD, "there is no gradient rule for source %u of %s", k + 1, tn__ops[node->op].text);
  r->hits++;
  if (r->verdict == TV_ZERO) return NULL;
  if (r->verdict == TV_FORBIDDEN) tn__fail(c, TN_EGRAD, "%s has no gradient: %s", tn__ops[node->op].text, r->why);
  tn__match m = {.c = c, .rule = r, .root = node};
  for (uint32_t j = 0; j < node->nsrc; j++) m.bound[GRAD_X + j] = node->src[j];
  m.bound[GRAD_OUT] = node;
  m.bound[GRAD_G] = g;
  return tn__instantiate(&m);
}
