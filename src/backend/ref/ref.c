/* Translation of linear kernels into compact instructions over registers, and their interpretation.
 *
 * A register holds one scalar as tn__eval wants it; an accumulator of n lanes is n registers in a row.  Constants are written into
 * their registers once, size variables at each launch. */
#include "backend/ref/ref.h"
#include "ir/eval.h"
#include "render/render.h"
#include <string.h>

typedef enum icode { I_EVAL, I_RANGE, I_END, I_ACC, I_SETACC, I_GETACC, I_FOLDACC, I_LOAD, I_STORE, I_STOREADD, I_IF } icode;

enum { NONE = UINT32_MAX };

typedef struct ins {
  uint8_t code, op, dtype, sdtype;
  uint32_t dst;    /* result; RANGE, END: the counter; SETACC, GETACC, FOLDACC: the first cell */
  uint32_t src[3]; /* operands; LOAD, STORE: index, gate, value */
  uint32_t lane, lanes, each; /* accumulators: the counter of lanes, all cells, cells of a lane */
  uint32_t span;   /* LOAD, STORE: number of the memory block */
  uint32_t jump;   /* RANGE, IF: behind the end; END: the first instruction of the body */
} ins;

typedef struct prog {
  ins *ins;
  uint64_t *reg;
  uint32_t *var_reg; /* NONE: the part does not use the variable */
  uint32_t n, nreg;
} prog;

typedef struct span {
  char *mem;
  size_t bytes;
} span;

typedef struct program { /* one kernel */
  const char *name;
  prog part[2];
  span *span; /* buffers by slot, then locals */
  uint32_t nparts, nbuf, nlocal, nvar;
} program;

struct tn__code {
  tn__arena arena;
  program *kernel;
  uint32_t n;
};

/* ---- translation ---- */

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  tn__code *code;
  const tn__kernel *k; /* the kernel and the part being translated */
  prog *p;
  tn__map reg;                     /* node -> register */
  tn__vec(uint64_t) value;         /* initial register contents */
  tn__vec(uint32_t) open;          /* RANGEs and IFs not yet closed */
} build;

static uint32_t new_reg(build *b, uint64_t value) {
  tn__vec_push(&b->device->ctx->scratch, &b->value, value);
  return b->value.n - 1;
}

/* The register of a source, which is an earlier instruction or a leaf met here for the first time. */
static uint32_t reg_of(build *b, tn_node *n) {
  uint64_t r;
  if (tn__map_get(&b->reg, (uintptr_t)n, &r)) return (uint32_t)r;
  uint32_t fresh = NONE;
  if (n->op == OP_CONST) fresh = new_reg(b, (uint64_t)n->ints[0]);
  for (uint32_t i = 0; n->op == OP_VAR && i < b->k->nvar; i++)
    if (b->k->var[i] == n) fresh = b->p->var_reg[i] = new_reg(b, 0);
  if (fresh == NONE)
    tn__fail(b->device->ctx, TN_ERUN, "kernel %s uses a %s before it is computed", b->k->name, tn__ops[n->op].text);
  tn__map_put(&b->reg, (uintptr_t)n, fresh);
  return fresh;
}

static uint32_t define(build *b, tn_node *n, uint32_t regs) {
  uint32_t r = new_reg(b, 0);
  for (uint32_t i = 1; i < regs; i++) new_reg(b, 0);
  tn__map_put(&b->reg, (uintptr_t)n, r);
  return r;
}

static void encode_acc(build *b, tn_node *n, ins *i) {
  tn_node *acc = n->op == OP_ACC ? n : n->src[0], *lane = n->nsrc > 2 ? n->src[2] : NULL;
  i->lanes = (uint32_t)(acc->ints[1] * acc->ints[2]);
  i->each = (uint32_t)acc->ints[2];
  i->src[2] = n->nsrc > 3 ? reg_of(b, n->src[3]) : NONE;
  i->op = n->op == OP_ACC ? 0 : (uint8_t)n->ints[0];
  i->dtype = acc->dtype;
  i->lane = lane ? reg_of(b, lane) : NONE;
  if (n->op == OP_ACC) {
    i->code = I_ACC;
    i->src[0] = reg_of(b, n->src[0]);
    i->dst = define(b, n, i->lanes);
  } else if (n->op == OP_SETACC) {
    bool fma = n->src[1]->op == OP_LIST;
    i->code = I_SETACC;
    i->dst = reg_of(b, acc);
    i->src[0] = reg_of(b, fma ? n->src[1]->src[0] : n->src[1]);
    i->src[1] = fma ? reg_of(b, n->src[1]->src[1]) : NONE;
  } else {
    i->code = lane || i->lanes == 1 ? I_GETACC : I_FOLDACC;
    i->src[0] = reg_of(b, acc);
    i->dst = define(b, n, i->code == I_FOLDACC ? i->lanes : 1); /* folding works on a copy of the cells */
  }
}

static void encode_access(build *b, tn_node *n, ins *i) {
  tn_node *buf = n->src[0];
  uint32_t gate = n->op == OP_LOAD ? 2 : 3;
  i->code = n->op == OP_LOAD ? I_LOAD : n->op == OP_STORE ? I_STORE : I_STOREADD;
  i->dtype = buf->dtype;
  i->span = (uint32_t)buf->ints[0] + (buf->op == OP_LOCAL ? b->k->nbuf : 0);
  i->src[0] = reg_of(b, n->src[1]);
  i->src[1] = n->nsrc > gate ? reg_of(b, n->src[gate]) : NONE;
  if (n->op != OP_LOAD) i->src[2] = reg_of(b, n->src[2]);
  else i->dst = define(b, n, 1);
}

static void encode_eval(build *b, tn_node *n, ins *i) {
  i->code = I_EVAL;
  i->op = n->op;
  i->dtype = n->dtype;
  i->sdtype = n->src[n->op == OP_WHERE ? 1 : 0]->dtype;
  for (uint32_t s = 0; s < 3; s++) i->src[s] = reg_of(b, n->src[s < n->nsrc ? s : 0]);
  i->dst = define(b, n, 1);
}

/* Loops and branches: the opening one waits on a stack for its end. */
static void encode_block(build *b, tn_node *n, ins *i, uint32_t at) {
  tn__arena *a = &b->device->ctx->scratch;
  switch (n->op) {
  case OP_RANGE:
    i->code = I_RANGE;
    i->src[0] = reg_of(b, n->src[0]);
    i->dst = define(b, n, 2); /* the counter, and behind it the end */
    tn__vec_push(a, &b->open, at);
    return;
  case OP_IF:
    i->code = I_IF;
    i->src[0] = reg_of(b, n->src[0]);
    tn__vec_push(a, &b->open, at);
    return;
  default: {
    if (!b->open.n) tn__fail(b->device->ctx, TN_ERUN, "kernel %s closes a loop that is not open", b->k->name);
    uint32_t start = b->open.v[--b->open.n];
    ins *first = &b->p->ins[start];
    first->jump = at;
    if (n->op == OP_ENDIF) return;
    i->code = I_END;
    i->dst = first->dst;
    i->jump = start + 1;
    first->jump = at + 1;
    tn__map_put(&b->reg, (uintptr_t)n, NONE); /* GETACC names it as a source */
  }
  }
}

static void translate_part(build *b, const tn__part *part) {
  tn_ctx *c = b->device->ctx;
  tn__arena *keep = &b->code->arena;
  tn__map_init(&b->reg, &c->scratch);
  b->value.n = b->open.n = 0;
  b->p->ins = tn__arena_zalloc(keep, (part->n + 1) * sizeof(ins));
  b->p->var_reg = tn__arena_alloc(keep, (b->k->nvar + 1) * sizeof(uint32_t));
  for (uint32_t v = 0; v < b->k->nvar; v++) b->p->var_reg[v] = NONE;
  uint32_t at = 0;
  for (uint32_t k = 0; k < part->n; k++) {
    tn_node *n = part->ins[k];
    ins *i = &b->p->ins[at];
    switch (n->op) {
    case OP_ACC: case OP_SETACC: case OP_GETACC: encode_acc(b, n, i); break;
    case OP_LOAD: case OP_STORE: case OP_STOREADD: encode_access(b, n, i); break;
    case OP_RANGE: case OP_END: case OP_IF: case OP_ENDIF: encode_block(b, n, i, at); break;
    case OP_BARRIER: break;
    default:
      if (!tn__is_elementwise(n)) tn__fail(c, TN_ERUN, "kernel %s: %s cannot stand in a kernel", b->k->name, tn__ops[n->op].text);
      encode_eval(b, n, i);
    }
    at += n->op != OP_ENDIF && n->op != OP_BARRIER; /* a place to jump to; all threads are one here */
  }
  if (b->open.n) tn__fail(c, TN_ERUN, "kernel %s leaves a loop open", b->k->name);
  b->p->n = at;
  b->p->nreg = b->value.n;
  b->p->reg = tn__arena_dup(keep, b->value.v, b->value.n * sizeof(uint64_t));
}

static void translate_kernel(build *b, program *out) {
  const tn__kernel *k = b->k;
  tn__arena *keep = &b->code->arena;
  *out = (program){.name = tn__arena_strdup(keep, k->name), .nparts = k->nparts, .nbuf = k->nbuf, .nlocal = k->nlocal, .nvar = k->nvar};
  out->span = tn__arena_zalloc(keep, (k->nbuf + k->nlocal + 1) * sizeof(span));
  char *scratch = tn__arena_zalloc(keep, (size_t)k->scratch + 1);
  for (uint32_t l = 0; l < k->nlocal; l++) {
    size_t room = (size_t)(k->scratch - k->local_at[l]), want = (size_t)k->local[l]->src[0]->hi * tn__size_of(k->local[l]->dtype);
    out->span[k->nbuf + l] = (span){scratch + k->local_at[l], want < room ? want : room};
  }
  for (uint32_t p = 0; p < k->nparts; p++) {
    b->p = &out->part[p];
    translate_part(b, &k->part[p]);
  }
}

static void translate(void *arg) {
  build *b = arg;
  tn__code *code = b->code;
  code->kernel = tn__arena_zalloc(&code->arena, (code->n + 1) * sizeof *code->kernel);
  for (uint32_t i = 0; i < code->n; i++) {
    b->k = b->kernels[i];
    translate_kernel(b, &code->kernel[i]);
  }
}

void tn__ref_release(tn__device *d, tn__code *code) {
  tn__arena_free(&code->arena);
  tn__mem_free(&d->ctx->mem, code);
}

tn__code *tn__ref_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  build b = {.device = d, .kernels = kernels, .code = tn__mem_zalloc(&d->ctx->mem, sizeof *b.code)};
  tn_status status;
  tn__arena_init(&b.code->arena, &d->ctx->mem);
  b.code->n = n;
  if (tn__mem_try(&d->ctx->mem, translate, &b, &status)) return b.code;
  tn__ref_release(d, b.code);
  tn__mem_throw(&d->ctx->mem, status);
}

/* ---- interpretation ---- */

static tn_status outside(tn__device *d, const program *k, const prog *p, const ins *i) {
  static const char *const verb[] = {[I_LOAD] = "load", [I_STORE] = "store", [I_STOREADD] = "storeadd"};
  bool local = i->span >= k->nbuf;
  tn__error(d->ctx, TN_ERUN, "kernel %s, instruction %u: %s %s %s%u[%lld] is outside its %zu elements", k->name, (unsigned)(i - p->ins),
            verb[i->code], tn__dtypes[i->dtype].name, local ? "local" : "b", local ? i->span - k->nbuf : i->span,
            (long long)p->reg[i->src[0]], k->span[i->span].bytes / tn__size_of(i->dtype));
  return TN_ERUN;
}

/* One LOAD, STORE or STOREADD; false if it is out of bounds. */
static bool access_memory(const program *k, uint64_t *r, const ins *i) {
  const span *s = &k->span[i->span];
  if (i->src[1] != NONE && !r[i->src[1]]) {
    if (i->code == I_LOAD) r[i->dst] = 0;
    return true;
  }
  size_t size = tn__size_of(i->dtype);
  uint64_t index = r[i->src[0]];
  if (index >= s->bytes / size) return false; /* negative ones are huge */
  char *at = s->mem + index * size;
  if (i->code == I_LOAD) {
    r[i->dst] = tn__eval_load(i->dtype, at);
    return true;
  }
  uint64_t value = r[i->src[2]];
  if (i->code == I_STOREADD) value = tn__eval(OP_ADD, i->dtype, i->dtype, (uint64_t[3]){tn__eval_load(i->dtype, at), value, 0});
  tn__eval_store(i->dtype, at, value);
  return true;
}

static uint32_t cell_of(const uint64_t *r, const ins *i) {
  return (i->lane == NONE ? 0 : (uint32_t)r[i->lane] * i->each) + (i->src[2] == NONE ? 0 : (uint32_t)r[i->src[2]]);
}

static void set_acc(uint64_t *r, const ins *i) {
  uint64_t *cell = &r[i->dst + cell_of(r, i)];
  if (i->src[1] == NONE) *cell = tn__eval(i->op, i->dtype, i->dtype, (uint64_t[3]){*cell, r[i->src[0]], 0});
  else *cell = tn__eval(OP_FMA, i->dtype, i->dtype, (uint64_t[3]){r[i->src[0]], r[i->src[1]], *cell});
}

static void fold_acc(uint64_t *r, const ins *i) {
  uint64_t *cell = &r[i->dst];
  memcpy(cell, &r[i->src[0]], i->lanes * sizeof *cell);
  for (uint32_t h = i->lanes / 2; h; h /= 2)
    for (uint32_t l = 0; l < h; l++) cell[l] = tn__eval(i->op, i->dtype, i->dtype, (uint64_t[3]){cell[l], cell[l + h], 0});
}

static tn_status run_part(tn__device *d, const program *k, const prog *p) {
  uint64_t *r = p->reg;
  for (uint32_t pc = 0; pc < p->n;) {
    const ins *i = &p->ins[pc++];
    switch ((icode)i->code) {
    case I_EVAL: r[i->dst] = tn__eval(i->op, i->dtype, i->sdtype, (uint64_t[3]){r[i->src[0]], r[i->src[1]], r[i->src[2]]}); break;
    case I_RANGE:
      r[i->dst] = 0;
      r[i->dst + 1] = r[i->src[0]];
      if ((int64_t)r[i->dst + 1] <= 0) pc = i->jump;
      break;
    case I_END:
      if (++r[i->dst] < r[i->dst + 1]) pc = i->jump;
      break;
    case I_IF:
      if (!r[i->src[0]]) pc = i->jump;
      break;
    case I_ACC:
      for (uint32_t l = 0; l < i->lanes; l++) r[i->dst + l] = r[i->src[0]];
      break;
    case I_SETACC: set_acc(r, i); break;
    case I_GETACC: r[i->dst] = r[i->src[0] + cell_of(r, i)]; break;
    case I_FOLDACC: fold_acc(r, i); break;
    case I_LOAD: case I_STORE: case I_STOREADD:
      if (!access_memory(k, r, i)) return outside(d, k, p, i);
    }
  }
  return TN_OK;
}

tn_status tn__ref_launch(tn__device *d, tn__code *code, uint32_t n, void *const *buf, const size_t *bytes, const int64_t *var) {
  const program *k = &code->kernel[n];
  for (uint32_t b = 0; b < k->nbuf; b++) k->span[b] = (span){buf[b], bytes[b]};
  tn_status status = TN_OK;
  for (uint32_t p = 0; p < k->nparts && !status; p++) {
    for (uint32_t v = 0; v < k->nvar; v++)
      if (k->part[p].var_reg[v] != NONE) k->part[p].reg[k->part[p].var_reg[v]] = (uint64_t)var[v];
    status = run_part(d, k, &k->part[p]);
  }
  return status;
}

static const tn__device_ops ref_ops = {
    .name = "ref",
    .alloc = tn__host_alloc,
    .free = tn__host_free,
    .upload = tn__host_copy,
    .download = tn__host_copy,
    .compile = tn__ref_compile,
    .release = tn__ref_release,
    .launch = tn__ref_launch,
};

/* What the interpreter may stand for: kernels are lowered as for that device, and mean the same. */
static const struct guise {
  const char *name;
  int group, units, tiles;
  bool copies;
  size_t shared;
  const tn__dialect *dialect;
} guises[] = {
    {"ref:cpu", 0, 0, 0, false, 0, &tn__dialect_c},
    {"ref:sm_80", 1024, 108, 80, true, 163 << 10, &tn__dialect_cuda},
    {"ref:sm_90", 1024, 132, 90, true, 227 << 10, &tn__dialect_cuda},
    {"ref:opencl", 64, 8, 0, false, 32 << 10, &tn__dialect_opencl},
};

void tn__ref_open(tn_ctx *c, const char *name) {
  static const char *const text = "reference interpreter, one scalar at a time";
  for (size_t i = 0; i < sizeof guises / sizeof *guises; i++) {
    const struct guise *g = &guises[i];
    if (strcmp(name, g->name)) continue;
    tn__device *d = tn__device_add(c, &ref_ops, name, text, NULL);
    d->group = g->group;
    d->units = g->units;
    d->tiles = g->tiles;
    d->copies = g->copies;
    d->shared = g->shared;
    d->dialect = g->dialect;
    return;
  }
  tn__device_add(c, &ref_ops, "ref", text, NULL)->interprets = true;
}
