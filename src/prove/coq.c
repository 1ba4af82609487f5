/* Rows as Coq theorems: index arithmetic over Z, machine integers of every width as residues, rows of mode fast over
 * the reals.
 *
 * A term is printed as the table spells it, (add x y), but for names that Coq has taken; the theories in proofs/coq say
 * what the names mean. */
#include "prove/prove.h"
#include <string.h>

typedef enum world { INDEX, MODULAR, REAL, WORLDS } world;

static const struct {
  const char *file, *theory, *type, *modulus, *tactic;
} worlds[WORLDS] = {
    [INDEX] = {"Rules_index", "Index", "Z", "", "index."},
    [MODULAR] = {"Rules_modular", "Modular", "Z", " M", "modular."},
    [REAL] = {"Rules_real", "RealRules", "R", "", "real."},
};

/* The ops that a world has, as bits; and how Coq spells them. */
static const struct {
  const char *text;
  uint32_t in;
} ops[OP_COUNT] = {
    [OP_ADD] = {"add", 1 << INDEX | 1 << MODULAR | 1 << REAL},
    [OP_MUL] = {"mul", 1 << INDEX | 1 << MODULAR | 1 << REAL},
    [OP_NEG] = {"neg", 1 << INDEX | 1 << MODULAR | 1 << REAL},
    [OP_DIV] = {"div", 1 << REAL},
    [OP_EXP] = {"exp", 1 << REAL},
    [OP_LOG] = {"log", 1 << REAL},
    [OP_IDIV] = {"idiv", 1 << INDEX},
    [OP_MOD] = {"mod_", 1 << INDEX},
    [OP_MIN] = {"min", 1 << INDEX},
    [OP_MAX] = {"max", 1 << INDEX},
    [OP_LT] = {"lt", 1 << INDEX},
    [OP_LE] = {"le", 1 << INDEX},
    [OP_EQ] = {"eq_", 1 << INDEX},
    [OP_NE] = {"ne", 1 << INDEX},
    [OP_AND] = {"and_", 1 << INDEX},
    [OP_OR] = {"or_", 1 << INDEX},
};

static const char *const fns[FN_COUNT] = {
    [FN_ADD] = "add", [FN_SUB] = "sub", [FN_MUL] = "mul", [FN_NEG] = "neg", [FN_MIN] = "min", [FN_MAX] = "max",
    [FN_IDIV] = "idiv", [FN_MOD] = "mod_", [FN_CEILDIV] = "ceildiv",
};

typedef struct printer {
  const tn__rule *r;
  world w;
  bool failed, extreme[TN__MAX_SLOTS];
  tn__sb *hyps; /* (H1 : ...) ... */
  int nhyps;
  const tn__term *divisor[TN__MAX_CONDS]; /* of #functions: not 0, or the row does not apply */
  uint32_t ndivisor;
} printer;

static void print(printer *q, tn__sb *b, const tn__term *x, bool truth);

/* One more hypothesis, unless it stands there already. */
static void suppose(printer *q, const char *text) {
  if (q->hyps->n && strstr(q->hyps->s, text)) return;
  tn__sb_printf(q->hyps, " (H%d%s", ++q->nhyps, text);
}

static void hypothesis(printer *q, const tn__term *x, const char *relation, const tn__term *y) {
  static const tn__term zero = {.form = TF_NUM, .whole = true},
                        one = {.form = TF_NUM, .num = 1, .whole = true, .inum = 1};
  tn__sb b;
  tn__sb_init(&b, q->hyps->arena);
  tn__sb_puts(&b, " : ");
  print(q, &b, x ? x : &one, false);
  tn__sb_printf(&b, " %s ", relation);
  print(q, &b, y ? y : &zero, false);
  tn__sb_putc(&b, ')');
  suppose(q, tn__sb_str(&b));
}

static void divisible(printer *q, const tn__term *by, const tn__term *x) {
  tn__sb b;
  tn__sb_init(&b, q->hyps->arena);
  tn__sb_puts(&b, " : (mod_ ");
  print(q, &b, x, false);
  tn__sb_putc(&b, ' ');
  print(q, &b, by, false);
  tn__sb_puts(&b, ") = 0)");
  suppose(q, tn__sb_str(&b));
}

static void promises(printer *q, const tn__term *x) {
  if (x->form == TF_PARTS) {
    hypothesis(q, NULL, "<", x->kid[1]);
    divisible(q, x->kid[1], x->kid[0]);
  }
  if (x->form == TF_SPLIT || x->form == TF_SPLIT_ALL) {
    const tn__term *d = x->kid[0];
    hypothesis(q, d, d->form == TF_NUM || (d->form == TF_VAR && q->r->is_const[d->slot]) ? ">" : "<>", NULL);
  }
  for (uint32_t i = 0; i < x->nkid; i++) promises(q, x->kid[i]);
}

static void condition(printer *q, const tn__cond *d) {
  static const char *const relations[] = {
      [TC_LT] = "<", [TC_LE] = "<=", [TC_EQ] = "=", [TC_NE] = "<>", [TC_GT] = ">", [TC_GE] = ">="};
  if (d->kind == TC_FITS) return; /* about 64 bits: smt.c states it */
  if (d->kind <= TC_GE) hypothesis(q, d->arg[0], relations[d->kind], d->arg[1]);
  else if (d->kind == TC_DIVIDES) {
    hypothesis(q, d->arg[0], "<>", NULL);
    divisible(q, d->arg[0], d->arg[1]);
  } else q->failed = true;
}

static void print_fn(printer *q, tn__sb *b, const tn__term *x) {
  if (x->what == FN_LO || x->what == FN_HI) {
    tn__sb_printf(b, "%s_%s", x->what == FN_LO ? "lo" : "hi", q->r->slot[x->kid[0]->slot]);
    q->extreme[x->kid[0]->slot] = true;
    return;
  }
  if (!fns[x->what]) q->failed = true;
  tn__sb_printf(b, "(%s", fns[x->what] ? fns[x->what] : "");
  for (uint32_t i = 0; i < x->nkid; i++) {
    tn__sb_putc(b, ' ');
    print(q, b, x->kid[i], false);
  }
  tn__sb_putc(b, ')');
  if ((x->what == FN_IDIV || x->what == FN_MOD || x->what == FN_CEILDIV) && q->ndivisor < TN__MAX_CONDS)
    q->divisor[q->ndivisor++] = x->kid[1];
}

static void print_sum(printer *q, tn__sb *b, const tn__term *k, const tn__term *x, const tn__term *r) {
  tn__sb_puts(b, "(add (mul ");
  print(q, b, x, false);
  tn__sb_putc(b, ' ');
  print(q, b, k, false);
  tn__sb_puts(b, ") ");
  print(q, b, r, false);
  tn__sb_putc(b, ')');
}

static void print_op(printer *q, tn__sb *b, const tn__term *x, bool truth) {
  bool logic = x->what == OP_AND || x->what == OP_OR;
  if (!(ops[x->what].in >> q->w & 1) || (logic && !truth)) q->failed = true;
  tn__sb_printf(b, "(%s%s", ops[x->what].text ? ops[x->what].text : "", worlds[q->w].modulus);
  for (uint32_t i = 0; i < x->nkid; i++) {
    tn__sb_putc(b, ' ');
    print(q, b, x->kid[i], logic);
  }
  tn__sb_putc(b, ')');
}

static void print_number(printer *q, tn__sb *b, const tn__term *x, bool truth) {
  if (!x->whole) q->failed = true;
  if (truth) tn__sb_puts(b, x->inum ? "true" : "false");
  else if (q->w == MODULAR) tn__sb_printf(b, "(num M (%lld))", (long long)x->inum);
  else tn__sb_printf(b, x->inum < 0 ? "(%lld)" : "%lld", (long long)x->inum);
}

/* truth: it is a truth value, not a number. */
static void print(printer *q, tn__sb *b, const tn__term *x, bool truth) {
  switch (x->form) {
  case TF_VAR: tn__sb_puts(b, q->r->slot[x->slot]); break;
  case TF_NUM: print_number(q, b, x, truth); break;
  case TF_OP: print_op(q, b, x, truth); break;
  case TF_FN: print_fn(q, b, x); break;
  case TF_SPLIT:
  case TF_SPLIT_ALL:
  case TF_PICK: print_sum(q, b, x->kid[0], x->kid[1], x->kid[2]); break;
  case TF_PARTS: print_sum(q, b, x->kid[1], x->kid[2], x->kid[3]); break;
  default: q->failed = true;
  }
}

static bool is_truth(const tn__term *x) {
  return x->form == TF_OP && (x->what == OP_LT || x->what == OP_LE || x->what == OP_EQ || x->what == OP_NE ||
                              x->what == OP_AND || x->what == OP_OR);
}

/* The theorem's statement; NULL if this world cannot say it. */
static const char *statement(tn__proofs *p, const tn__rule *r, world w) {
  tn__sb b, hyps, sides;
  tn__sb_init(&b, p->a), tn__sb_init(&hyps, p->a), tn__sb_init(&sides, p->a);
  printer q = {.r = r, .w = w, .hyps = &hyps};
  bool truth = is_truth(r->lhs);
  promises(&q, r->lhs);
  for (uint32_t i = 0; i < r->ncond + r->nassume; i++) condition(&q, &r->cond[i]);
  print(&q, &sides, r->lhs, truth);
  tn__sb_puts(&sides, " = ");
  print(&q, &sides, r->rhs, truth);
  for (uint32_t i = 0; i < q.ndivisor; i++) hypothesis(&q, q.divisor[i], "<>", NULL);
  if (q.failed) return NULL;
  tn__sb_puts(&b, w == MODULAR ? "forall (M" : "forall (");
  for (uint32_t i = 0; i < r->nslot; i++) tn__sb_printf(&b, "%s%s", i || w == MODULAR ? " " : "", r->slot[i]);
  for (uint32_t i = 0; i < r->nslot; i++)
    if (q.extreme[i]) tn__sb_printf(&b, " lo_%s hi_%s", r->slot[i], r->slot[i]);
  tn__sb_printf(&b, " : %s)", worlds[w].type);
  for (uint32_t i = 0; i < r->nslot; i++) {
    const char *x = r->slot[i];
    if (w == MODULAR) tn__sb_printf(&b, " (V%u : is_value M %s)", i, x);
    if (q.extreme[i]) tn__sb_printf(&b, " (L%u : lo_%s <= %s) (U%u : %s <= hi_%s)", i, x, x, i, x, x);
  }
  tn__sb_printf(&b, "%s, %s", hyps.n ? hyps.s : "", tn__sb_str(&sides));
  return tn__sb_str(&b);
}

static bool admits_ints(const tn__rule *r) {
  tn__typing t;
  return tn__typing_infer(r, &t) && (t.admits[t.up[t.of[0]]] >> TN_I32 & 1) && r->lhs->form == TF_OP &&
         !is_truth(r->lhs);
}

static void rows(tn__proofs *p, const tn__ruleset *s, world w, tn__theory *file) {
  for (uint32_t i = 0; i < s->n; i++) {
    const tn__rule *r = &s->rule[i];
    tn__sb name;
    const char *says = w != MODULAR || admits_ints(r) ? statement(p, r, w) : NULL;
    if (!says) continue;
    tn__sb_init(&name, p->a);
    tn__sb_printf(&name, "%s.%s", s->name, r->name);
    tn__prove_coq(p, tn__sb_str(&name),
                  w == MODULAR ? "every width"
                  : w == INDEX ? "Z"
                               : "R",
                  w == REAL ? TK_REAL_ONLY : TK_PROVED, file, tn__sb_str(&name), says,
                  r->proof && w == INDEX ? r->proof : worlds[w].tactic);
  }
}

void tn__export_coq(tn__proofs *p) {
  static const struct {
    const char *table;
    world w;
  } jobs[] = {{"index", INDEX}, {"lemmas", INDEX}, {"simplify", MODULAR}, {"ops", MODULAR}, {"float", REAL}};
  tn__theory *file[WORLDS];
  for (int w = 0; w < WORLDS; w++) {
    tn__sb b;
    tn__sb_init(&b, p->a);
    tn__sb_printf(&b, "From Tenet Require Import %s.\n", worlds[w].theory);
    file[w] = tn__prove_file(p, worlds[w].file, tn__sb_str(&b));
  }
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
    rows(p, tn__rules_get(p->c, jobs[i].table), jobs[i].w, file[jobs[i].w]);
}
