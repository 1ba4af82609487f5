/* What each stage may emit; see spec.h.  The ops come from the PHASES column of ops.def, the kinds of their sources
 * from the tables below. */
#include "ir/spec.h"

/* Source kinds, one letter a source; a '*' after the last one repeats it for all that follow (none included), and
 * one that comes after '?' may be missing.
 *   v  a value: neither index nor void           i  a scalar of dtype index       s  a scalar value or index
 *   a  any value or index, dtypes checked by the node itself
 *   p  a bool: a condition                       x  where to: an index, or a LIST of them
 *   m  integers: what a gather looks up
 *   b  a buffer of the phase                     r  a RANGE
 *   e  an effect: STORE, STOREADD                t  such, or a REQUIRE
 *   o  an operand of SETACC: a scalar, or a LIST of two for FMA
 *   c  a CALL                                    q  an ACC      n  an END     k  a kernel's SINK or a LIB */
typedef struct phase {
  const char *name;
  int mask;
  const char *scalar; /* kinds of the sources of scalar functions and casts */
  const char *kinds[OP_COUNT]; /* NULL: no sources, or a scalar function */
} phase;

static const phase tensor_phase = {
    "tensor", PH_T, "a*",
    {
        [OP_STORAGE] = "i*", [OP_PARAM] = "i*", [OP_IOTA] = "i",
        [OP_SUM] = "v", [OP_PROD] = "v", [OP_RMAX] = "v", [OP_RMIN] = "v",
        [OP_RESHAPE] = "vi*", [OP_EXPAND] = "vi*", [OP_PERMUTE] = "v", [OP_PAD] = "vi*", [OP_SHRINK] = "vi*",
        [OP_FLIP] = "v", [OP_WINDOW] = "v", [OP_FOLD] = "vi", [OP_GATHER] = "vm", [OP_SCATTER] = "vmv",
        [OP_CONTRACT] = "vv", [OP_DETACH] = "v", [OP_CONTIG] = "v", [OP_PERMUTATION] = "m",
        [OP_DISTINCT] = "m", [OP_SPANS] = "m", [OP_ASSIGN] = "vv", [OP_EITHER] = "vv",
        [OP_SINK] = "v*",
    }};

static const phase kernel_phase = {
    "kernel", PH_K, "s*",
    {
        [OP_PARAM] = "i*", [OP_RANGE] = "i", [OP_LIST] = "s*", [OP_LOCAL] = "i?r", [OP_LOAD] = "bx?p",
        [OP_STORE] = "bxs?pr*", [OP_STOREADD] = "bxs?pr*", [OP_AFTER] = "be*", [OP_REDUCE] = "sr*", [OP_SINK] = "t*",
        [OP_REQUIRE] = "b?i?i",
    }};

static const phase linear_phase = {
    "linear", PH_L, "s*",
    {
        [OP_PARAM] = "i*", [OP_RANGE] = "i", [OP_LIST] = "s*", [OP_LOCAL] = "i?r", [OP_LOAD] = "bi?p",
        [OP_STORE] = "bis?p", [OP_STOREADD] = "bis?p", [OP_END] = "r", [OP_ACC] = "s", [OP_SETACC] = "qo?r?r",
        [OP_GETACC] = "qn?r?r", [OP_BARRIER] = "", [OP_REQUIRE] = "b?i?i",
    }};

static const phase schedule_phase = {
    "schedule", PH_S, "i*",
    {
        [OP_STORAGE] = "i*", [OP_PARAM] = "i*", [OP_BUFFER] = "i", [OP_CALL] = "kb*", [OP_LIB] = "ki*",
        [OP_SINK] = "c*",
    }};

static bool is_buffer(const tn_node *n, int mask) {
  switch ((tn__op)n->op) {
  case OP_PARAM: return true;
  case OP_LOCAL: return (mask & PH_KL) != 0;
  case OP_AFTER: return mask == PH_K;
  case OP_STORAGE:
  case OP_BUFFER: return mask == PH_S;
  default: return false;
  }
}

static bool is_kind(char kind, const tn_node *n, int mask) {
  bool buffer = mask != PH_T && is_buffer(n, mask);
  bool plain = n->dtype != TN__VOID && n->dtype != TN__INDEX && !buffer;
  bool index = n->dtype == TN__INDEX && n->rank == 0 && !buffer;
  switch (kind) {
  case 'v': return plain;
  case 'i': return index;
  case 's': return n->rank == 0 && (plain || index);
  case 'a': return plain || index;
  case 'p': return plain && n->dtype == TN_BOOL;
  case 'x': return index || n->op == OP_LIST;
  case 'm': return plain && tn__is_int(n->dtype);
  case 'b': return buffer;
  case 'r': return n->op == OP_RANGE;
  case 'e': return n->op == OP_STORE || n->op == OP_STOREADD;
  case 't': return n->op == OP_STORE || n->op == OP_STOREADD || n->op == OP_REQUIRE;
  case 'o': return (n->rank == 0 && (plain || index)) || (n->op == OP_LIST && n->nsrc == 2);
  case 'c': return n->op == OP_CALL;
  case 'q': return n->op == OP_ACC;
  case 'n': return n->op == OP_END || n->op == OP_SETACC;
  case 'k': return n->op == OP_SINK || n->op == OP_LIB;
  default: return false;
  }
}

_Noreturn static void reject(tn_ctx *c, const phase *ph, tn_node *n, const char *why) {
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  tn__sb_puts(&text, tn__node_type(n, &c->scratch));
  for (uint32_t i = 0; i < n->nsrc && i < 8; i++)
    tn__sb_printf(&text, "%s%s %s", i ? ", " : " of ", tn__ops[n->src[i]->op].text,
                  tn__node_type(n->src[i], &c->scratch));
  tn__fail(c, TN_ESTATE, TN__SPEC_FAULT "%s in a %s graph: %s (%s)", tn__ops[n->op].text, ph->name, why,
           tn__sb_str(&text));
}

static void check_sources(tn_ctx *c, const phase *ph, tn_node *n, const char *kinds) {
  const char *k = kinds;
  for (uint32_t i = 0; i < n->nsrc; k += k[1] != '*') {
    bool optional = *k == '?';
    k += optional;
    if (*k == 0) reject(c, ph, n, "it has too many sources");
    bool fits = is_kind(*k, n->src[i], ph->mask);
    if (!fits && !(optional && k[1])) reject(c, ph, n, "a source is of the wrong kind");
    i += fits;
  }
  while (*k == '?') k += 2;
  if (*k && k[1] != '*') reject(c, ph, n, "a source is missing");
}

/* As a reduction of tensors does */
static bool combines(int64_t op) {
  for (int of = 0; of < OP_COUNT; of++)
    if (tn__ops[of].group == G_REDUCE && tn__ops[of].combine == op) return true;
  return false;
}

static bool has_dtype(const tn_node *value, int dtype) {
  bool good = value->op == OP_LIST || value->dtype == dtype;
  for (uint32_t i = 0; value->op == OP_LIST && i < value->nsrc; i++) good &= value->src[i]->dtype == dtype;
  return good;
}

/* What is wrong with how values meet memory and each other; NULL: nothing. */
static const char *fault_of(const tn_node *n) {
  bool fused = n->op == OP_SETACC && n->ints[0] == OP_FMA;
  switch (n->op) {
  case OP_STORE: case OP_STOREADD:
    if (n->op == OP_STOREADD && n->nint > 0)
      return tn__combining_fault(n->ints, n->nint, n->src[0]->dtype, n->src[2]->dtype);
    if (n->op == OP_STOREADD && tn__is_addable(n->src[0]->dtype, n->src[2]->dtype)) return NULL;
    return has_dtype(n->src[2], n->src[0]->dtype) ? NULL : "what is stored is of another dtype than the buffer";
  case OP_SETACC:
    if (fused != (n->src[1]->op == OP_LIST)) return "it cannot combine so: fma, and only that, takes a list of two";
    if (!has_dtype(n->src[1], n->src[0]->dtype)) return "the operand is of another dtype than the accumulator";
    return fused || combines(n->ints[0]) ? NULL : "it cannot combine so";
  case OP_REDUCE: case OP_GETACC: return combines(n->ints[0]) ? NULL : "it cannot combine so";
  default: return NULL;
  }
}

static void check_node(tn_ctx *c, const phase *ph, tn_node *n) {
  const tn__op_info *info = &tn__ops[n->op];
  const char *kinds = ph->kinds[n->op];
  bool scalar = tn__is_elementwise(n);
  if (!(info->phases & ph->mask) && !(scalar && n->dtype == TN__INDEX)) reject(c, ph, n, "the op may not stand there");
  if (n->dtype == TN__INDEX && n->rank) reject(c, ph, n, "index is a dtype of sizes, not of elements");
  if (ph->mask != PH_T && scalar && n->rank) reject(c, ph, n, "only scalars may stand there");
  check_sources(c, ph, n, kinds ? kinds : scalar ? ph->scalar : "");
  const char *fault = fault_of(n);
  if (fault) reject(c, ph, n, fault);
}

static void check_graph(tn_ctx *c, const phase *ph, tn_node *root) {
  tn__nodes order = {0};
  tn__topo(&c->scratch, &root, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    tn_node *n = order.v[i];
    if (n->op == OP_SINK && n != root) reject(c, ph, n, "a sink may only be the root");
    check_node(c, ph, n);
  }
}

void tn__spec_tensor(tn_ctx *c, tn_node *root) {
  if (root->dtype == TN__VOID && root->op != OP_SINK) reject(c, &tensor_phase, root, "it is no tensor");
  check_graph(c, &tensor_phase, root);
}

/* A loop's number is its own, and leaves room for those of the loops that lowering adds. */
static void check_ids(tn_ctx *c, const phase *ph, tn_node *const *v, uint32_t n) {
  tn__map taken;
  tn__map_init(&taken, &c->scratch);
  for (uint32_t i = 0; i < n; i++) {
    if (v[i]->op != OP_RANGE) continue;
    if (ph == &kernel_phase && v[i]->ints[RANGE_ID] > INT32_MAX) reject(c, ph, v[i], "its number is too large");
    tn_node *other = NULL;
    uint64_t at;
    if (tn__map_get(&taken, (uint64_t)v[i]->ints[RANGE_ID], &at)) other = (tn_node *)(uintptr_t)at;
    if (other && other != v[i]) reject(c, ph, v[i], "another loop has its number");
    tn__map_put(&taken, (uint64_t)v[i]->ints[RANGE_ID], (uint64_t)(uintptr_t)v[i]);
  }
}

/* What closes loops closes each once. */
static void check_closers(tn_ctx *c, const phase *ph, tn_node *const *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (v[i]->op != OP_STORE && v[i]->op != OP_STOREADD && v[i]->op != OP_REDUCE) continue;
    for (uint32_t s = v[i]->op == OP_REDUCE ? 1 : 3; s < v[i]->nsrc; s++)
      for (uint32_t k = s + 1; k < v[i]->nsrc; k++)
        if (v[i]->src[s] == v[i]->src[k]) reject(c, ph, v[i], "it closes a loop twice");
  }
}

static bool stores_to(const tn_node *n, const tn_node *buffer) {
  if (n->op != OP_STORE && n->op != OP_STOREADD) return false;
  const tn_node *to = n->src[0]->op == OP_AFTER ? n->src[0]->src[0] : n->src[0];
  return to->op == OP_PARAM && to->ints[0] == buffer->ints[0];
}

/* What is required of a buffer is so before the kernel runs and stays so: it is only read; the numbers are sizes. */
static void check_requires(tn_ctx *c, const phase *ph, tn_node *const *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (v[i]->op != OP_REQUIRE) continue;
    tn__nodes all = {0};
    tn__topo(&c->scratch, v[i]->src + 1, v[i]->nsrc - 1, &all);
    for (uint32_t k = 0; k < all.n; k++)
      if (all.v[k]->op != OP_CONST && all.v[k]->op != OP_VAR && !tn__is_elementwise(all.v[k]))
        reject(c, ph, v[i], "its numbers are no sizes");
    for (uint32_t k = 0; k < n; k++)
      if (stores_to(v[k], v[i]->src[0])) reject(c, ph, v[i], "the kernel stores to that buffer");
  }
}

void tn__spec_kernel(tn_ctx *c, tn_node *root) {
  tn__nodes order = {0};
  if (root->op != OP_SINK) reject(c, &kernel_phase, root, "a kernel's body is a sink");
  check_graph(c, &kernel_phase, root);
  tn__topo(&c->scratch, &root, 1, &order);
  check_ids(c, &kernel_phase, order.v, order.n);
  check_closers(c, &kernel_phase, order.v, order.n);
  check_requires(c, &kernel_phase, order.v, order.n);
}

void tn__spec_schedule(tn_ctx *c, tn_node *root) {
  const phase *ph = &schedule_phase;
  if (root->op != OP_SINK) reject(c, ph, root, "a schedule is a sink");
  check_node(c, ph, root);
  for (uint32_t i = 0; i < root->nsrc; i++) {
    tn_node *call = root->src[i], *body = call->src[0];
    check_node(c, ph, call);
    if (body->op == OP_LIB) {
      check_node(c, ph, body);
      body = body->src[0];
    }
    tn__spec_kernel(c, body);
    for (uint32_t k = 1; k < call->nsrc; k++) check_node(c, ph, call->src[k]);
  }
}

/* A linear program on its way through the check: which loops are open, and what can be seen from here,
 * in the order in which it came; how much of that there was when each of them opened. */
typedef struct scopes {
  tn__vec(tn_node *) open, seen;
  tn__vec(uint32_t) before;
  tn__map visible; /* node -> how many of it are among `seen`: lanes repeat what they need */
  tn__map closed;  /* loops that have run */
} scopes;

static uint64_t number_in(const tn__map *m, const tn_node *n) {
  uint64_t v = 0;
  tn__map_get(m, (uint64_t)(uintptr_t)n, &v);
  return v;
}

static bool is_visible(const scopes *s, const tn_node *x) {
  return x->op == OP_CONST || x->op == OP_VAR || x->op == OP_PARAM || x->op == OP_LOCAL || number_in(&s->visible, x);
}

static void check_visible(tn_ctx *c, const phase *ph, const scopes *s, tn_node *x) {
  for (uint32_t k = 0; k < x->nsrc; k++) {
    const tn_node *y = x->src[k];
    bool list = y->op == OP_LIST, good = list || is_visible(s, y);
    for (uint32_t i = 0; list && i < y->nsrc; i++) good &= is_visible(s, y->src[i]);
    if (!good) reject(c, ph, x, "a source does not come before it");
  }
}

static bool is_lanes(const tn_node *range) {
  return range->ints[RANGE_AXIS] == AX_UPCAST || range->ints[RANGE_AXIS] == AX_UNROLL;
}

/* Only loops over lanes are written out for each who wants them: any other has one place where it runs. */
static void enter(tn_ctx *c, const phase *ph, scopes *s, tn_node *x) {
  bool lanes = is_lanes(x);
  if (number_in(&s->visible, x)) reject(c, ph, x, "it is inside of itself");
  if (!lanes && number_in(&s->closed, x)) reject(c, ph, x, "it has run before");
  tn__vec_push(&c->scratch, &s->open, x);
  tn__vec_push(&c->scratch, &s->before, s->seen.n);
}

/* What was computed inside is seen no more; what lanes have set is, in the turn of the loop around them, by others of
 * its loops over them. */
static void leave(tn_ctx *c, const phase *ph, scopes *s, tn_node *x) {
  if (s->open.n == 0 || s->open.v[--s->open.n] != x->src[0]) reject(c, ph, x, "loops do not nest");
  tn__map_put(&s->closed, (uint64_t)(uintptr_t)x->src[0], 1);
  uint32_t stay = s->before.v[--s->before.n];
  for (uint32_t i = stay; i < s->seen.n; i++) {
    tn_node *gone = s->seen.v[i];
    if (gone->op == OP_SETACC && is_lanes(x->src[0])) s->seen.v[stay++] = gone;
    else tn__map_put(&s->visible, (uint64_t)(uintptr_t)gone, number_in(&s->visible, gone) - 1);
  }
  s->seen.n = stay;
}

/* An accumulator combines by one op: its cells and its lanes are combined by what reads it. */
static void check_accs(tn_ctx *c, const phase *ph, tn_node *const *v, uint32_t n) {
  tn__map by;
  tn__map_init(&by, &c->scratch);
  for (uint32_t i = 0; i < n; i++) {
    if (v[i]->op != OP_SETACC && v[i]->op != OP_GETACC) continue;
    int64_t op = v[i]->ints[0] == OP_FMA ? OP_ADD : v[i]->ints[0];
    uint64_t other, acc = (uint64_t)(uintptr_t)v[i]->src[0];
    if (tn__map_get(&by, acc, &other) && other != (uint64_t)op)
      reject(c, ph, v[i], "its accumulator combines otherwise elsewhere");
    tn__map_put(&by, acc, (uint64_t)op);
  }
}

void tn__spec_linear(tn_ctx *c, tn_node *const *ins, uint32_t n) {
  const phase *ph = &linear_phase;
  scopes s = {0};
  tn__map_init(&s.visible, &c->scratch);
  tn__map_init(&s.closed, &c->scratch);
  for (uint32_t i = 0; i < n; i++) {
    tn_node *x = ins[i];
    check_node(c, ph, x);
    if (x->op == OP_END) leave(c, ph, &s, x);
    else check_visible(c, ph, &s, x);
    if (x->op == OP_RANGE) enter(c, ph, &s, x);
    tn__vec_push(&c->scratch, &s.seen, x);
    tn__map_put(&s.visible, (uint64_t)(uintptr_t)x, number_in(&s.visible, x) + 1);
  }
  if (s.open.n) reject(c, ph, s.open.v[s.open.n - 1], "it is never closed");
  check_ids(c, ph, ins, n);
  check_accs(c, ph, ins, n);
  check_requires(c, ph, ins, n);
}

void tn__spec_program(tn_ctx *c, tn_node *root) {
  if (root->op != OP_SINK) reject(c, &linear_phase, root, "a program is a sink");
  tn__spec_linear(c, root->src, root->nsrc);
}
