#include "verify/readback.h"
#include "ir/eval.h"
#include "lower/encode.h"
#include "lower/launch_extent.h"
#include "verify/c_machine.h"
#include <string.h>

/* TURNS: of a block of as many groups as it has threads, three for each */
enum { LOCAL = 1 << 17, TURNS = 3 * 1024, TRIED = 256, SEEDS = 2, THOROUGH_SEEDS = 8, NUMBERS = 64 };
enum { CUDA_WARP = 32 }; /* by the definition of the language */
enum { FEW_STEPS = 30000, MOST_STEPS = 100000, LONG_STEPS = 1000000, CUT_STEPS = 24000000, THOROUGH_STEPS = 20000000,
       LONG = 64, SHORT = 16, MERGE_STEPS = 64, /* of a thread that has no turn, and merges lanes with others */
       TEXT_STEPS = 64 };

const char *const tn__readback_exempt[] = {"tn_tile_", NULL};

typedef struct turns { /* iterations of the global range, in order */
  int64_t at[TURNS];
  uint32_t n;
} turns;

typedef struct reading {
  tn_ctx *c;
  const tn__readback_subject *s;
  tn__encoded code;
  uint32_t part, first; /* of its launch */
  uint32_t stages;      /* of its launch, of which it is one; 0: it is none.  Alone it runs by any number of blocks. */
  int64_t extent, before, others; /* of the part; blocks of its launch: before its own, and in all but for its own */
  tn__exact_memory want, got;
  tn__exact *reg;
  tn__c_function *f;
  tn__c_machine m;
  int64_t cut; /* loops of more turns are cut short, unless blocks of turns are one statement; 0: none is */
  bool too_long;
  uint64_t steps, used; /* of the linear program: left; at most by some turns */
  tn__sb *why;
} reading;

/* ---- the linear program ---- */

static void evaluate(reading *r, const tn__ins *i) {
  tn__exact x[3];
  for (uint32_t s = 0; s < 3; s++) x[s] = r->reg[i->src[s]];
  r->reg[i->dst] = tn__exact_eval(i->op, i->dtype, i->sdtype, x);
}

static bool access_linear(reading *r, const tn__ins *i) {
  const tn__kernel *k = r->s->kernel;
  tn__exact *reg = r->reg;
  if (i->src[1] != TN__NO_REG && !reg[i->src[1]].v) {
    if (i->code == TN__I_LOAD)
      reg[i->dst] = tn__is_float(i->dtype) ? tn__exact_const(i->dtype, 0) : tn__exact_int(0);
    return true;
  }
  uint32_t object = i->span < k->nbuf ? i->span : LOCAL + i->span - k->nbuf;
  int64_t at = (int64_t)(reg[i->src[0]].v * tn__size_of(i->dtype));
  tn__exact_cell *c = tn__exact_memory_at(&r->want, object, at, i->dtype);
  if (!c) {
    tn__sb_printf(r->why, "the linear program leaves buffer %u", i->span);
    return false;
  }
  if (i->code == TN__I_LOAD) {
    reg[i->dst] = c->val;
    return true;
  }
  tn__exact v = r->reg[i->src[2]];
  if (i->code == TN__I_STOREADD) {
    if (tn__is_counted(i->dtype, i->sdtype)) v = tn__exact_eval(OP_CAST, i->dtype, i->sdtype, &v);
    v = tn__exact_eval(i->op, i->dtype, i->dtype, (tn__exact[]){c->val, v});
  }
  c->val = i->dtype == TN_F16 || i->dtype == TN_BF16 ? tn__exact_round(i->dtype, v) : v;
  c->written = true;
  return true;
}

static uint32_t cell_of(const reading *r, const tn__ins *i) {
  return (i->lane == TN__NO_REG ? 0 : (uint32_t)r->reg[i->lane].v * i->each) +
         (i->src[2] == TN__NO_REG ? 0 : (uint32_t)r->reg[i->src[2]].v);
}

static void accumulate(reading *r, const tn__ins *i) {
  tn__exact *reg = r->reg, *cell, x;
  switch ((tn__icode)i->code) {
  case TN__I_ACC:
    for (uint32_t l = 0; l < i->lanes; l++) reg[i->dst + l] = r->reg[i->src[0]];
    return;
  case TN__I_SETACC:
    cell = &reg[i->dst + cell_of(r, i)];
    x = r->reg[i->src[0]];
    if (i->src[1] == TN__NO_REG) *cell = tn__exact_eval(i->op, i->dtype, i->dtype, (tn__exact[]){*cell, x});
    else
      *cell = tn__exact_eval(OP_FMA, i->dtype, i->dtype, (tn__exact[]){x, r->reg[i->src[1]], *cell});
    return;
  case TN__I_GETACC: reg[i->dst] = reg[i->src[0] + cell_of(r, i)]; return;
  default:
    cell = &reg[i->dst];
    memcpy(cell, &reg[i->src[0]], i->lanes * sizeof *cell);
    for (uint32_t h = i->lanes / 2; h; h /= 2)
      for (uint32_t l = 0; l < h; l++)
        cell[l] = tn__exact_eval(i->op, i->dtype, i->dtype, (tn__exact[]){cell[l], cell[l + h]});
  }
}

/* The next value of a counter; -1: none. */
static int64_t next_turn(const reading *r, const tn__ins *i, const turns *t, uint32_t *global) {
  int64_t now = (int64_t)r->reg[i->dst].v, end = (int64_t)r->reg[i->dst + 1].v;
  if (i->op == AX_GLOBAL) return ++*global < t->n ? t->at[*global] : -1;
  if (now + 1 >= end) return -1;
  bool lanes = i->op == AX_UPCAST && (r->s->kernel->part[r->part].group || r->f->vectors);
  bool cut = r->cut && !r->f->turns && !lanes && end > r->cut && now + 1 == TN__C_SHORTENED;
  return cut ? end - TN__C_SHORTENED : now + 1;
}

static bool run_linear(reading *r, const turns *t) {
  const tn__code_part *p = &r->code.part[r->part];
  uint32_t global = 0;
  for (uint32_t i = 0; i < p->nreg; i++)
    r->reg[i] = tn__is_float(p->dtype[i]) ? tn__exact_const(p->dtype[i], p->reg[i]) : tn__exact_int(p->reg[i]);
  for (uint32_t v = 0; v < r->s->kernel->nvar; v++)
    if (p->var_reg[v] != TN__NO_REG) r->reg[p->var_reg[v]] = tn__exact_int((uint64_t)r->s->value[v]);
  for (uint32_t pc = 0; pc < p->n;) {
    const tn__ins *i = &p->ins[pc++];
    if (!r->steps) return r->too_long = true, false;
    r->steps--;
    switch ((tn__icode)i->code) {
    case TN__I_EVAL: evaluate(r, i); break;
    case TN__I_RANGE: {
      bool none = i->op == AX_GLOBAL ? !t->n : (int64_t)r->reg[i->src[0]].v <= 0;
      r->reg[i->dst + 1] = r->reg[i->src[0]];
      r->reg[i->dst] = tn__exact_int(i->op == AX_GLOBAL && t->n ? (uint64_t)t->at[0] : 0);
      if (none) pc = i->jump;
      break;
    }
    case TN__I_END: {
      int64_t next = next_turn(r, i, t, &global);
      if (next >= 0) r->reg[i->dst] = tn__exact_int((uint64_t)next), pc = i->jump;
      break;
    }
    case TN__I_BARRIER: break;
    case TN__I_ACC: case TN__I_SETACC: case TN__I_GETACC: case TN__I_FOLDACC: accumulate(r, i); break;
    case TN__I_LOAD: case TN__I_STORE: case TN__I_STOREADD:
      if (!access_linear(r, i)) return false;
    }
  }
  return true;
}

/* ---- comparing ---- */

static bool differs(reading *r, const tn__exact_cell *c, const char *what) {
  tn__sb_printf(r->why, "buffer %u, element %lld: %s", c->object, (long long)(c->at / (int64_t)tn__size_of(c->dtype)),
                what);
  return false;
}

static bool compare(reading *r) {
  uint32_t nbuf = r->s->kernel->nbuf;
  for (uint32_t i = 0; i < r->want.cell.n; i++) {
    tn__exact_cell w = r->want.cell.v[i];
    if (w.object >= nbuf || !w.written) continue;
    const tn__exact_cell *g = tn__exact_memory_at(&r->got, w.object, w.at, w.dtype);
    if (!g || !g->written) return differs(r, &w, "is not stored by the text");
    if (!tn__exact_same(w.val, g->val)) return differs(r, &w, "the text computes another value");
  }
  for (uint32_t i = 0; i < r->got.cell.n; i++) {
    tn__exact_cell g = r->got.cell.v[i];
    if (g.object >= nbuf || !g.written) continue;
    const tn__exact_cell *w = tn__exact_memory_at(&r->want, g.object, g.at, g.dtype);
    if (!w || !w->written) return differs(r, &g, "is stored by the text only");
  }
  return true;
}

/* ---- launches ---- */

static tn__exact place(uint32_t object, int64_t at) {
  return (tn__exact){.kind = TN__EXACT_PLACE, .of = object, .v = (uint64_t)at};
}

/* The arguments that the language's launcher passes; their number, 0: too many. */
static uint32_t bind(const reading *r, tn__exact *argument, uint64_t seed, int64_t lo, int64_t hi) {
  const tn__kernel *k = r->s->kernel;
  uint32_t n = 0;
  if (2 * k->nbuf + k->nvar > TN__C_PARAMS) return 0;
  if (r->s->language == TN__READ_C) {
    argument[0] = place(TN__C_BUFFERS, 0);
    argument[1] = place(TN__C_VARIABLES, 0);
    argument[2] = tn__exact_int((uint64_t)lo);
    argument[3] = tn__exact_int((uint64_t)hi);
    argument[4] = place(TN__C_SCRATCH, 0);
    return 5;
  }
  for (uint32_t b = 0; b < k->nbuf; b++) {
    int64_t offset = r->s->language == TN__READ_OPENCL ? (int64_t)(tn__hash_mix(seed, b) % 1000) * 64 : 0;
    argument[n++] = place(b, -offset);
    if (r->s->language == TN__READ_OPENCL) argument[n++] = tn__exact_int((uint64_t)offset);
  }
  for (uint32_t v = 0; v < k->nvar; v++) argument[n++] = tn__exact_int((uint64_t)r->s->value[v]);
  return n;
}

/* Both forms run; t: the turns that the text's slice lo..hi-1, or its block of `groups`, is to take. */
static bool try_turns(reading *r, const turns *t, uint64_t seed, int64_t lo, int64_t hi, uint64_t group,
                      uint64_t groups) {
  tn__exact argument[TN__C_PARAMS];
  uint64_t before = r->steps = r->s->thorough   ? THOROUGH_STEPS
                               : r->cut == LONG ? LONG_STEPS
                               : r->cut         ? CUT_STEPS
                                                : MOST_STEPS;
  tn__exact_memory_clear(&r->want);
  tn__exact_memory_clear(&r->got);
  r->want.seed = r->got.seed = r->m.seed = seed;
  if (!run_linear(r, t)) return false;
  uint32_t n = bind(r, argument, seed, lo, hi);
  if (n != r->f->nparam) {
    tn__sb_puts(r->why, n ? "the text has other parameters" : "more parameters than are read back");
    return false;
  }
  if (before - r->steps > r->used) r->used = before - r->steps;
  r->m.cut = r->f->turns ? 0 : r->cut;
  r->m.steps = ((before - r->steps + MERGE_STEPS) * (uint64_t)r->m.threads + 1000) * TEXT_STEPS;
  if (!tn__c_machine_run(&r->m, argument, group, groups)) {
    if (r->m.too_long) tn__sb_puts(r->why, "the text takes far more steps");
    return false;
  }
  return compare(r);
}

/* Slices lo..hi-1 of C functions. */
static bool try_slice(reading *r, uint64_t seed, int64_t lo, int64_t hi) {
  turns t = {0};
  for (int64_t i = lo; i < hi; i++) t.at[t.n++] = i;
  return try_turns(r, &t, seed, lo, hi, 0, 1);
}

/* Do all turns take few steps, at `used` for `each` of them? */
static bool are_few(const reading *r, int64_t each) {
  return r->s->thorough || (r->extent <= TRIED && !r->cut && r->used * (uint64_t)(r->extent / each + 1) < FEW_STEPS);
}

static bool try_slices(reading *r, uint64_t seed) {
  int64_t n = r->extent, most = n < 3 ? n : 3;
  if (!r->s->kernel->part[r->part].global) return try_slice(r, seed, 0, 1);
  if (!try_slice(r, seed, 0, most)) return false;
  if (most && are_few(r, most)) {
    for (int64_t lo = 0; lo < n; lo += TURNS)
      if (!try_slice(r, seed, lo, n - lo < TURNS ? n : lo + TURNS)) return false;
    return true;
  }
  int64_t middle = n > 0 ? (int64_t)(tn__hash_mix(seed, 1) % (uint64_t)n) : 0;
  return try_slice(r, seed, n - most, n) && try_slice(r, seed, middle, middle) &&
         (n == 0 || try_slice(r, seed, middle, middle + 1));
}

/* Block `block` of `blocks`, each of `together` groups; where others are launched with the part, behind theirs. */
static bool try_block(reading *r, uint64_t seed, int64_t block, int64_t blocks) {
  turns t = {0};
  int64_t together = tn__groups_of_block(&r->s->kernel->part[r->part]);
  for (int64_t g = block * together; g < (block + 1) * together; g++)
    for (int64_t i = g; i < r->extent && t.n < TURNS; i += blocks * together) t.at[t.n++] = i;
  return try_turns(r, &t, seed, 0, 0, (uint64_t)(r->before + block), (uint64_t)(blocks + r->others));
}

static bool try_blocks(reading *r, uint64_t seed) {
  const tn__part *part = &r->s->kernel->part[r->part];
  int64_t together = tn__groups_of_block(part), n = (r->extent + together - 1) / together;
  if (!part->global) return try_block(r, seed, 0, 1);
  if (r->others) n = tn__fixed_blocks(part); /* the text says so: they may be fewer than there are turns for */
  int64_t fewer = n > 40 ? n - n / 3 : n / 2;
  if (n <= 0) return true;
  int64_t middle = (int64_t)(tn__hash_mix(seed, 1) % (uint64_t)n);
  if (!try_block(r, seed, 0, n)) return false;
  for (int64_t b = 1; b < n - 1 && are_few(r, together); b++)
    if (!try_block(r, seed, b, n)) return false;
  return try_block(r, seed, n - 1, n) && try_block(r, seed, middle, n) &&
         (fewer < 1 || r->others || (try_block(r, seed, 0, fewer) && try_block(r, seed, fewer - 1, fewer)));
}

/* ---- a part ---- */

/* Data that meets the kernel's own numbers tells bounds from their neighbours. */
static void find_numbers(reading *r) {
  int64_t *number = tn__alloc(r->c, NUMBERS * sizeof *number);
  uint32_t n = 0;
  const tn__code_part *p = &r->code.part[r->part];
  for (uint32_t i = 0; i < p->nreg && n < NUMBERS; i++)
    if (p->reg[i] && !tn__is_float(p->dtype[i])) number[n++] = (int64_t)p->reg[i];
  r->want.number = r->got.number = number;
  r->want.nnumber = r->got.nnumber = n;
}

static bool check_extent(reading *r) {
  const tn__kernel *k = r->s->kernel;
  const tn__part *part = &k->part[r->part];
  tn__launch_extent launch = tn__launch_extent_make(r->c, &r->c->scratch, k, part);
  const tn__env env = {.key = k->var, .val = r->s->value, .n = k->nvar};
  r->extent = part->global ? tn__eval_index(part->global->src[0], &env, &r->c->scratch) : 1;
  if (tn__launch_extent_of(&launch, r->s->value) != r->extent) {
    tn__sb_puts(r->why, "the host computes another number of groups");
    return false;
  }
  if (r->s->language != TN__READ_C) return true;
  tn__sb name;
  tn__sb_init(&name, &r->c->scratch);
  tn__sb_printf(&name, "%s_%u_extent", k->name, r->part);
  tn__c_machine m = {.c = r->c,
                     .a = &r->c->scratch,
                     .memory = &r->got,
                     .variable = r->s->value,
                     .nvar = k->nvar,
                     .threads = 1,
                     .warp = 1,
                     .steps = 10000,
                     .why = r->why};
  m.f = tn__c_text_read(r->c, &r->c->scratch, r->s->text, tn__sb_str(&name), r->why);
  tn__exact argument = place(TN__C_VARIABLES, 0);
  if (!m.f || m.f->nparam != 1 || !tn__c_machine_run(&m, &argument, 0, 1)) return false;
  if (m.result.kind == TN__EXACT_INT && (int64_t)m.result.v == r->extent) return true;
  tn__sb_printf(r->why, "%s is not %lld", tn__sb_str(&name), (long long)r->extent);
  return false;
}

static bool calls_exempt(const reading *r, const char *name) {
  const char *from = strstr(r->s->text, name), *to = from ? strstr(from, "\n}") : NULL;
  for (uint32_t i = 0; to && tn__readback_exempt[i]; i++) {
    const char *call = strstr(from, tn__readback_exempt[i]);
    if (call && call < to) {
      tn__sb_puts(r->why, tn__readback_exempt[i]);
      return true;
    }
  }
  return false;
}

static bool check_declared(reading *r) {
  const tn__part *part = &r->s->kernel->part[r->part];
  if (r->s->language == TN__READ_C ? part->group == 0
                                   : part->group > 0 && r->f->threads == tn__threads_of_launch(r->s->kernel, r->first))
    return true;
  tn__sb_puts(r->why, "the text declares another number of threads");
  return false;
}

/* The launch that it is a part of: its first part, which it is named by, and the blocks of the others. */
static void find_launch(reading *r) {
  const tn__kernel *k = r->s->kernel;
  if (!k->part[r->part].abreast && !k->part[r->part].behind) r->first = r->part;
  r->before = r->others = 0;
  r->stages = tn__has_stages(k, r->first) ? tn__launch_end(k, r->first) - r->first : 0;
  if (r->stages) return;
  for (uint32_t p = r->first, end = tn__launch_end(k, r->first); p < end; p++) {
    if (p == r->part) r->before = r->others;
    else r->others += tn__fixed_blocks(&k->part[p]);
  }
}

/* Turns of a loop that fills registers of a thread, which shorter ones read: they are not cut short. */
static int64_t longest_fill(const tn__kernel *k) {
  int64_t most = 0;
  for (uint32_t i = 0; i < k->nlocal; i++) {
    const tn_node *x = k->local[i];
    int64_t each = x && x->ints[1] > 0 ? x->src[0]->hi / x->ints[1] : 0;
    if (each > most) most = each;
  }
  return most;
}

static tn__readback_result try_part(reading *r, const char *name) {
  const tn__kernel *k = r->s->kernel;
  tn__arena *a = &r->c->scratch;
  const tn__part *part = &k->part[r->part];
  if (!check_extent(r)) return TN__READ_DIFFERS;
  if (r->s->language == TN__READ_CUDA && calls_exempt(r, name)) return TN__READ_EXEMPT;
  r->f = tn__c_text_read_stage(r->c, a, r->s->text, name, r->part - r->first, r->stages, r->why);
  if (!r->f || !check_declared(r)) return TN__READ_DIFFERS;
  find_numbers(r);
  r->used = 0;
  r->reg = tn__arena_alloc(a, (r->code.part[r->part].nreg + 1) * sizeof *r->reg);
  r->m = (tn__c_machine){.c = r->c,
                         .a = a,
                         .f = r->f,
                         .memory = &r->got,
                         .written = k->buf_written,
                         .variable = r->s->value,
                         .nvar = k->nvar,
                         .shared = {part->group ? k->shared : k->scratch, 0},
                         .threads = part->group ? tn__threads_of_launch(k, r->first) : 1,
                         .warp = r->s->language == TN__READ_CUDA ? CUDA_WARP : 1 << 20,
                         .begins = r->s->language == TN__READ_CUDA,
                         .why = r->why};
  const int64_t fills = part->group ? longest_fill(k) : 0, cuts[] = {0, LONG, fills > SHORT ? fills : SHORT};
  for (size_t cut = 0; cut < sizeof cuts / sizeof *cuts; cut++) {
    bool equal = true;
    r->cut = cuts[cut];
    r->too_long = false;
    for (uint64_t seed = 1; seed <= (r->s->thorough ? THOROUGH_SEEDS : SEEDS) && equal; seed++)
      equal = part->group ? try_blocks(r, seed) : try_slices(r, seed);
    if (equal) return TN__READ_EQUAL;
    if (!r->too_long) return TN__READ_DIFFERS;
  }
  return TN__READ_TOO_LONG;
}

tn__readback_result tn__readback(tn_ctx *c, const tn__readback_subject *s, tn__sb *why) {
  const tn__kernel *k = s->kernel;
  reading r = {.c = c, .s = s, .why = why};
  tn__readback_result result = TN__READ_EQUAL;
  tn__encode(c, &c->scratch, k, &r.code);
  static const uint8_t held[] = {
      [REQ_PERMUTED] = TN__HOLDS_PERMUTED, [REQ_DISTINCT] = TN__HOLDS_PERMUTED, [REQ_SORTED] = TN__HOLDS_SORTED};
  uint8_t *holds = tn__arena_zalloc(&c->scratch, k->nbuf + 1u);
  for (uint32_t i = 0; i < k->nrequire; i++) {
    const tn_node *says = k->require[i];
    if ((size_t)says->ints[0] < sizeof held && held[says->ints[0]]) holds[says->src[0]->ints[0]] = held[says->ints[0]];
  }
  tn__exact_memory_open(&r.want, &c->scratch, 0, k->nbuf, k->buf_dtype, s->size, holds);
  tn__exact_memory_open(&r.got, &c->scratch, 0, k->nbuf, k->buf_dtype, s->size, holds);
  for (r.part = 0; r.part < k->nparts; r.part++) {
    tn__sb name;
    tn__sb_init(&name, &c->scratch);
    find_launch(&r);
    tn__sb_printf(&name, "%s_%u", k->name, r.first);
    tn__readback_result now = try_part(&r, tn__sb_str(&name));
    if (now == TN__READ_DIFFERS) return now;
    if (now != TN__READ_EQUAL) result = now;
  }
  return result;
}
