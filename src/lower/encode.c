#include "lower/encode.h"
#include "ir/ctx.h"

typedef struct build {
  tn_ctx *c;
  const tn__kernel *k; /* the kernel and the part being encoded */
  tn__code_part *p;
  tn__map reg;                     /* node -> register */
  tn__vec(uint64_t) value;         /* initial register contents */
  tn__vec(uint8_t) dtype;
  tn__vec(uint32_t) open;          /* RANGEs and IFs not yet closed */
} build;

static uint32_t new_reg(build *b, int dtype, uint64_t value) {
  tn__vec_push(&b->c->scratch, &b->value, value);
  tn__vec_push(&b->c->scratch, &b->dtype, (uint8_t)dtype);
  return b->value.n - 1;
}

/* The register of a source, which is an earlier instruction or a leaf met here for the first time. */
static uint32_t reg_of(build *b, tn_node *n) {
  uint64_t r;
  if (tn__map_get(&b->reg, (uintptr_t)n, &r)) return (uint32_t)r;
  uint32_t fresh = TN__NO_REG;
  if (n->op == OP_CONST) fresh = new_reg(b, n->dtype, (uint64_t)n->ints[0]);
  for (uint32_t i = 0; n->op == OP_VAR && i < b->k->nvar; i++)
    if (b->k->var[i] == n) fresh = b->p->var_reg[i] = new_reg(b, TN__INDEX, 0);
  if (fresh == TN__NO_REG)
    tn__fail(b->c, TN_ERUN, "kernel %s uses a %s before it is computed", b->k->name, tn__ops[n->op].text);
  tn__map_put(&b->reg, (uintptr_t)n, fresh);
  return fresh;
}

static uint32_t define(build *b, tn_node *n, uint32_t regs) {
  uint32_t r = new_reg(b, TN__INDEX, 0);
  for (uint32_t i = 1; i < regs; i++) new_reg(b, TN__INDEX, 0);
  tn__map_put(&b->reg, (uintptr_t)n, r);
  return r;
}

static void encode_acc(build *b, tn_node *n, tn__ins *i) {
  tn_node *acc = n->op == OP_ACC ? n : n->src[0], *lane = n->nsrc > 2 ? n->src[2] : NULL;
  i->lanes = (uint32_t)(acc->ints[1] * acc->ints[2]);
  i->each = (uint32_t)acc->ints[2];
  i->src[2] = n->nsrc > 3 ? reg_of(b, n->src[3]) : TN__NO_REG;
  i->op = n->op == OP_ACC ? 0 : (uint8_t)n->ints[0];
  i->dtype = acc->dtype;
  i->lane = lane ? reg_of(b, lane) : TN__NO_REG;
  if (n->op == OP_ACC) {
    i->code = TN__I_ACC;
    i->src[0] = reg_of(b, n->src[0]);
    i->dst = define(b, n, i->lanes);
  } else if (n->op == OP_SETACC) {
    bool fma = n->src[1]->op == OP_LIST;
    i->code = TN__I_SETACC;
    i->dst = reg_of(b, acc);
    i->src[0] = reg_of(b, fma ? n->src[1]->src[0] : n->src[1]);
    i->src[1] = fma ? reg_of(b, n->src[1]->src[1]) : TN__NO_REG;
  } else {
    i->code = lane || i->lanes == 1 ? TN__I_GETACC : TN__I_FOLDACC;
    i->src[0] = reg_of(b, acc);
    i->dst = define(b, n, i->code == TN__I_FOLDACC ? i->lanes : 1); /* folding works on a copy of the cells */
  }
}

static void encode_access(build *b, tn_node *n, tn__ins *i) {
  tn_node *buf = n->src[0], *gate = tn__gate_of(n);
  i->code = n->op == OP_LOAD ? TN__I_LOAD : n->op == OP_STORE ? TN__I_STORE : TN__I_STOREADD;
  i->dtype = buf->dtype;
  i->span = (uint32_t)buf->ints[0] + (buf->op == OP_LOCAL ? b->k->nbuf : 0);
  i->src[0] = reg_of(b, n->src[1]);
  i->src[1] = gate ? reg_of(b, gate) : TN__NO_REG;
  if (n->op != OP_LOAD)
    i->src[2] = reg_of(b, n->src[2]), i->sdtype = n->src[2]->dtype, i->op = (uint8_t)tn__combines_by(n);
  else i->dst = define(b, n, 1);
}

static void encode_eval(build *b, tn_node *n, tn__ins *i) {
  i->code = TN__I_EVAL;
  i->op = n->op;
  i->dtype = n->dtype;
  i->sdtype = n->src[n->op == OP_WHERE ? 1 : 0]->dtype;
  for (uint32_t s = 0; s < 3; s++) i->src[s] = reg_of(b, n->src[s < n->nsrc ? s : 0]);
  i->dst = define(b, n, 1);
}

/* The opening of a loop waits on a stack for its end. */
static void encode_range(build *b, tn_node *n, tn__ins *i, uint32_t at) {
  i->code = TN__I_RANGE;
  i->op = (uint8_t)n->ints[0];
  i->src[0] = reg_of(b, n->src[0]);
  i->dst = define(b, n, 2); /* the counter, and behind it the end */
  tn__vec_push(&b->c->scratch, &b->open, at);
}

static void encode_end(build *b, tn_node *n, tn__ins *i, uint32_t at) {
  if (!b->open.n) tn__fail(b->c, TN_ERUN, "kernel %s closes a loop that is not open", b->k->name);
  uint32_t start = b->open.v[--b->open.n];
  tn__ins *first = &b->p->ins[start];
  i->code = TN__I_END;
  i->op = first->op;
  i->dst = first->dst;
  i->jump = start + 1;
  first->jump = at + 1;
  tn__map_put(&b->reg, (uintptr_t)n, TN__NO_REG); /* GETACC names it as a source */
}

static void encode_part(build *b, tn__arena *keep, const tn__part *part) {
  tn_ctx *c = b->c;
  tn__map_init(&b->reg, &c->scratch);
  b->value.n = b->dtype.n = b->open.n = 0;
  b->p->ins = tn__arena_zalloc(keep, (part->n + 1) * sizeof(tn__ins));
  b->p->var_reg = tn__arena_alloc(keep, (b->k->nvar + 1) * sizeof(uint32_t));
  for (uint32_t v = 0; v < b->k->nvar; v++) b->p->var_reg[v] = TN__NO_REG;
  for (uint32_t at = 0; at < part->n; at++) {
    tn_node *n = part->ins[at];
    tn__ins *i = &b->p->ins[at];
    switch (n->op) {
    case OP_ACC: case OP_SETACC: case OP_GETACC: encode_acc(b, n, i); break;
    case OP_LOAD: case OP_STORE: case OP_STOREADD: encode_access(b, n, i); break;
    case OP_RANGE: encode_range(b, n, i, at); break;
    case OP_END: encode_end(b, n, i, at); break;
    case OP_BARRIER: i->code = TN__I_BARRIER; break;
    default:
      if (!tn__is_elementwise(n))
        tn__fail(c, TN_ERUN, "kernel %s: %s cannot stand in a kernel", b->k->name, tn__ops[n->op].text);
      encode_eval(b, n, i);
    }
  }
  if (b->open.n) tn__fail(c, TN_ERUN, "kernel %s leaves a loop open", b->k->name);
  b->p->n = part->n;
  b->p->nreg = b->value.n;
  b->p->reg = tn__arena_dup(keep, b->value.v, b->value.n * sizeof(uint64_t));
  b->p->dtype = tn__arena_dup(keep, b->dtype.v, b->dtype.n);
}

void tn__encode(tn_ctx *c, tn__arena *keep, const tn__kernel *k, tn__encoded *out) {
  build b = {.c = c, .k = k};
  *out = (tn__encoded){.name = tn__arena_strdup(keep, k->name), .nparts = k->nparts};
  for (uint32_t p = 0; p < k->nparts; p++) {
    b.p = &out->part[p];
    encode_part(&b, keep, &k->part[p]);
  }
}
