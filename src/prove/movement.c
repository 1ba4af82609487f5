/* Rows about movement as Coq theorems, for every rank (proofs/coq/Movement.v).  An argument variable has the type that
 * its op gives it, and what the shape rules demand of it is assumed. */
#include "prove/prove.h"
#include <math.h>
#include <string.h>

typedef struct printer {
  tn__proofs *p;
  const tn__rule *r;
  tn__sb *b, *legal;
  const char *type[TN__MAX_SLOTS];
  int nlegal;
} printer;

/* How Coq spells a movement, the type of its argument, and what is legal: %x the source, %s the argument. */
static const struct {
  const char *text, *type, *legal;
} ops[OP_COUNT] = {
    [OP_RESHAPE] = {"reshape", "list Z", NULL},
    [OP_EXPAND] = {"expand", "index", "legal_expand (dim %x) %s"},
    [OP_PERMUTE] = {"permute", "perm", NULL},
    [OP_PAD] = {"pad zero rank", "pads", "legal_pads %s"},
    [OP_SHRINK] = {"shrink", "part", "legal_part %s (dim %x)"},
    [OP_FLIP] = {"flip", "axes", NULL},
    [OP_SUM] = {"reduce rank sum", "axes", NULL},
    [OP_PROD] = {"reduce rank prod", "axes", NULL},
    [OP_RMAX] = {"reduce rank rmax", "axes", NULL},
    [OP_RMIN] = {"reduce rank rmin", "axes", NULL},
    [OP_CONTIG] = {"contig", NULL, NULL},
    [OP_DETACH] = {"detach", NULL, NULL},
};

static bool reshapes(const tn__term *x) { return x->form == TF_OP && x->what == OP_RESHAPE; }

static void print(printer *q, tn__sb *b, const tn__term *x);

static void demand(printer *q, const tn__term *x) {
  tn__sb_printf(q->legal, " (L%d : ", ++q->nlegal);
  for (const char *s = ops[x->what].legal; *s; s++) {
    if (*s != '%') tn__sb_putc(q->legal, *s);
    else if (*++s == 'x') print(q, q->legal, x->kid[0]);
    else tn__sb_puts(q->legal, q->r->slot[x->kid[1]->slot]);
  }
  tn__sb_putc(q->legal, ')');
}

static void print(printer *q, tn__sb *b, const tn__term *x) {
  if (x->form == TF_VAR && q->r->is_const[x->slot])
    tn__sb_printf(b, "(%s %s)", reshapes(q->r->lhs) ? "flat_splat" : "splat", q->r->slot[x->slot]);
  else if (x->form == TF_VAR) tn__sb_puts(b, q->r->slot[x->slot]);
  else if (x->form == TF_NUM) tn__sb_puts(b, "(splat zero)");
  else {
    tn__sb_printf(b, "(%s", x->form == TF_ARGFN ? tn__argfn_names[x->what] : ops[x->what].text);
    for (uint32_t i = 0; i < x->nkid; i++) {
      tn__sb_putc(b, ' ');
      print(q, b, x->kid[i]);
    }
    tn__sb_putc(b, ')');
  }
}

/* The only number that these statements know is that of pads. */
static bool is_zero(const tn__term *x) { return x->form == TF_NUM && x->whole && !x->inum && !signbit(x->num); }

static bool types(printer *q, const tn__term *x) {
  if (x->form == TF_NUM && !is_zero(x)) return false;
  if (x->form == TF_VAR || x->form == TF_NUM) {
    if (x->form == TF_VAR)
      q->type[x->slot] = q->r->is_const[x->slot] ? "V" : reshapes(q->r->lhs) ? "flat V" : "tensor V";
    return true;
  }
  if (x->form != TF_OP || !ops[x->what].text || !types(q, x->kid[0])) return false;
  if (ops[x->what].type) q->type[x->kid[1]->slot] = ops[x->what].type;
  if (ops[x->what].legal) demand(q, x);
  return true;
}

/* A shape that is the root's. */
static void same_shape(printer *q, tn__sb *b) {
  const tn__term *l = q->r->lhs;
  const char *x = q->r->slot[l->kid[0]->slot], *s = q->r->slot[l->kid[1]->slot];
  if (l->what == OP_RESHAPE) tn__sb_printf(b, "%s = dims V %s", s, x);
  else tn__sb_printf(b, "forall k, %s%s k = dim %s k", l->what == OP_SHRINK ? "size " : "", s, x);
}

static void condition(printer *q, tn__sb *b, const tn__cond *d, uint32_t number) {
  tn__sb_printf(b, " (H%u : ", number);
  if (d->kind == TC_SAME_SHAPE) same_shape(q, b);
  else {
    tn__sb_puts(b, tn__cond_names[d->kind]);
    for (int i = 0; i < tn__cond_args[d->kind]; i++) tn__sb_printf(b, " %s", q->r->slot[d->arg[i]->slot]);
  }
  tn__sb_putc(b, ')');
}

static void row(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, tn__theory *file) {
  tn__sb b, legal, name;
  tn__sb_init(&b, p->a), tn__sb_init(&legal, p->a), tn__sb_init(&name, p->a);
  printer q = {.p = p, .r = r, .b = &b, .legal = &legal};
  if (!types(&q, r->lhs) || (r->rhs->form == TF_NUM && !is_zero(r->rhs))) return;
  tn__sb_puts(&b, "forall (V : Type) (zero : V) (rank : nat) (sum prod rmax rmin : tensor V -> nat -> tensor V)");
  for (uint32_t i = 0; i < r->nslot; i++) tn__sb_printf(&b, " (%s : %s)", r->slot[i], q.type[i]);
  tn__sb_puts(&b, tn__sb_str(&legal));
  for (uint32_t i = 0; i < r->ncond; i++) condition(&q, &b, &r->cond[i], i + 1);
  tn__sb_puts(&b, reshapes(r->lhs) ? ", flat_same " : ", same ");
  print(&q, &b, r->lhs);
  tn__sb_putc(&b, ' ');
  print(&q, &b, r->rhs);
  tn__sb_printf(&name, "%s.%s", s->name, r->name);
  tn__prove_coq(p, tn__sb_str(&name), "every rank", TK_PROVED, file, tn__sb_str(&name), tn__sb_str(&b),
                r->proof ? r->proof : "movement.");
}

void tn__export_movement(tn__proofs *p) {
  const tn__ruleset *s = tn__rules_get(p->c, "simplify");
  tn__theory *file = tn__prove_file(p, "Rules_movement", "From Tenet Require Import Movement.\n");
  for (uint32_t i = 0; i < s->n; i++) {
    const tn__rule *r = &s->rule[i];
    tn__typing t;
    if (!tn__typing_infer(r, &t) && tn__ops[r->op].group >= G_REDUCE) row(p, s, r, file);
  }
}
