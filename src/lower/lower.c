#include "ir/build.h"
#include "ir/require.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

static void find_buffers(tn__arena *a, const tn__nodes *roots, tn__kernel *k) {
  tn__nodes all = {0};
  uint8_t *dtype, *written;
  tn__topo(a, roots->v, roots->n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM && all.v[i]->ints[0] >= k->nbuf) k->nbuf = (uint32_t)all.v[i]->ints[0] + 1;
  k->buf_dtype = dtype = tn__arena_zalloc(a, k->nbuf + 1);
  k->buf_written = written = tn__arena_zalloc(a, k->nbuf + 1);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    if (n->op == OP_PARAM) dtype[n->ints[0]] = n->dtype;
    if (n->op != OP_STORE && n->op != OP_STOREADD) continue;
    const tn_node *b = n->src[0]->op == OP_AFTER ? n->src[0]->src[0] : n->src[0];
    if (b->op == OP_PARAM) written[b->ints[0]] = 1;
  }
}

static void find_vars(tn__arena *a, const tn__nodes *roots, tn__kernel *k) {
  tn__nodes all = {0}, vars = {0};
  tn__topo(a, roots->v, roots->n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_VAR) tn__vec_push(a, &vars, all.v[i]);
  k->var = vars.v;
  k->nvar = vars.n;
}

/* Bytes of a LOCAL, in lines */
static int64_t room_of(const tn_node *n) { return (n->src[0]->hi * (int64_t)tn__size_of(n->dtype) + 63) / 64 * 64; }

/* Rows of scratch, each from a 64-byte border */
static void place_locals(tn__arena *a, const tn__nodes *roots, tn__kernel *k) {
  tn__nodes all = {0}, locals = {0};
  tn__topo(a, roots->v, roots->n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOCAL) tn__vec_push(a, &locals, all.v[i]);
  int64_t *at = tn__arena_alloc(a, (locals.n + 1) * sizeof *at);
  k->local = tn__arena_zalloc(a, (locals.n + 1) * sizeof *k->local);
  for (uint32_t i = 0; i < locals.n; i++)
    if (locals.v[i]->ints[0] >= k->nlocal) k->nlocal = (uint32_t)locals.v[i]->ints[0] + 1;
  for (int own = 0; own < 2; own++) { /* the shared ones first */
    for (uint32_t i = 0; i < locals.n; i++) {
      tn_node *n = locals.v[i];
      if ((n->ints[1] > 0) != own) continue;
      k->local[n->ints[0]] = n;
      at[n->ints[0]] = k->scratch;
      k->scratch += room_of(n);
    }
    if (!own) k->shared = k->scratch;
  }
  for (uint32_t p = 0; p < k->nparts; p++)
    if (k->part[p].tile && (int64_t)k->part[p].tile->form->shared > k->shared)
      k->shared = (int64_t)k->part[p].tile->form->shared;
  k->local_at = at;
}

/* Bytes that a part's groups share, as place_locals counts them */
static double shared_by(tn__arena *a, tn_node *part) {
  tn__nodes all = {0};
  double bytes = 0;
  tn__topo(a, &part, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOCAL && all.v[i]->ints[1] <= 0) bytes += (double)room_of(all.v[i]);
  return bytes;
}

static const char *name_of(tn__arena *a, const tn_node *body, const tn__kernel *k, uint32_t index) {
  tn__sb s;
  tn__sb_init(&s, a);
  tn__sb_printf(&s, "k%u%s", index, k->nparts > 1 ? "_parts" : "");
  const tn_node *store = body->nsrc ? body->src[0] : body;
  uint32_t first;
  if (!tn__closes(store, &first)) first = store->nsrc;
  for (uint32_t i = first; i < store->nsrc; i++) {
    int64_t v;
    if (tn__const_int(store->src[i]->src[0], &v)) tn__sb_printf(&s, "_%lld", (long long)v);
    else tn__sb_puts(&s, "_n");
  }
  return tn__sb_str(&s);
}

/* The first id that no range of the body has */
static int64_t range_ids(tn__arena *a, tn_node *body) {
  tn__nodes all = {0};
  int64_t next = 0;
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE && all.v[i]->ints[RANGE_ID] >= next) next = all.v[i]->ints[RANGE_ID] + 1;
  return next;
}

void tn__find_memory(tn__arena *a, tn_node *const *part, tn__kernel *k) {
  tn__nodes roots = {0};
  for (uint32_t p = 0; p < k->nparts; p++) tn__vec_push(a, &roots, part[p]);
  for (uint32_t i = 0; i < k->nrequire; i++) tn__vec_push(a, &roots, k->require[i]);
  find_buffers(a, &roots, k);
  find_vars(a, &roots, k);
  place_locals(a, &roots, k);
}

/* The body without what it requires, which goes with the kernel: passes see effects alone, and change none of it. */
static tn_node *take_requires(tn_ctx *c, tn__arena *a, tn_node *body, tn__kernel *k) {
  tn__nodes taken = {0}, rest = {0};
  for (uint32_t i = 0; i < body->nsrc; i++)
    tn__vec_push(a, body->src[i]->op == OP_REQUIRE ? &taken : &rest, body->src[i]);
  k->require = taken.v;
  k->nrequire = taken.n;
  return taken.n ? tn__sink(c, rest.v, rest.n, body->name) : body;
}

static const char *note_of(tn__arena *a, const tn__kernel *k, const char *steps) {
  tn__sb s;
  tn__sb_init(&s, a);
  tn__sb_puts(&s, steps);
  for (uint32_t i = 0; i < k->nrequire; i++) {
    tn__sb_puts(&s, i ? ", " : " requires(");
    tn__require_print(&s, k->require[i]);
  }
  if (k->nrequire) tn__sb_putc(&s, ')');
  for (uint32_t p = 0; p < k->nparts; p++)
    if (k->part[p].blocks) tn__sb_printf(&s, " starts(%lld)", (long long)k->part[p].blocks);
  return tn__sb_str(&s);
}

/* Plain interpreters say nothing of groups, and run programs that have them. */
static int subgroup_of(const tn__target *target) {
  return target->subgroup > 0 ? target->subgroup : TN__USUAL_SUBGROUP;
}

/* Threads of a program: whole subgroups, twice as many at a time, as the machine combines them */
static int threads_of(tn_ctx *c, const tn_node *program, const tn__target *target) {
  int64_t most = 1, n = subgroup_of(target);
  for (uint32_t i = 0; i < program->nsrc; i++)
    if (program->src[i]->op == OP_RANGE && tn__axis_of(program->src[i]) == AX_UPCAST && program->src[i]->hi >= most)
      most = program->src[i]->hi + 1;
  while (n < most) n *= 2;
  if (target->group && n > target->group)
    tn__fail(c, TN_ENOTSUP, "the program needs %lld threads, and a group of the device has %d", (long long)most,
             target->group);
  return (int)n;
}

static tn__kernel *lower_program(tn_ctx *c, tn__arena *a, tn_node *body, const tn__target *target, uint32_t index) {
  tn__kernel *k = tn__arena_zalloc(a, sizeof *k);
  tn__part *p = &k->part[0];
  bool groups = target->group || target->interprets;
  tn__nodes ins = {0};
  k->nparts = 1;
  body = take_requires(c, a, body, k);
  *p = (tn__part){.body = body, .grain = 1, .subgroup = subgroup_of(target), .adds = target->adds};
  p->group = groups ? threads_of(c, body, target) : 0;
  for (uint32_t i = 0; i < body->nsrc; i++) {
    tn_node *n = body->src[i];
    if (n->op == OP_RANGE && tn__axis_of(n) == AX_GLOBAL) p->global = n;
    if (groups || n->op != OP_BARRIER) tn__vec_push(a, &ins, n);
  }
  p->ins = ins.v;
  p->n = ins.n;
  tn__find_memory(a, &body, k);
  if (target->group && (uint64_t)k->shared > target->shared)
    tn__fail(c, TN_ENOTSUP, "the program shares %lld bytes, and a group of the device has %zu", (long long)k->shared,
             target->shared);
  k->note = note_of(a, k, " as written");
  k->name = name_of(a, body, k, index);
  return k;
}

tn__kernel tn__program_as_written(const tn__kernel *k) {
  tn__kernel written = *k;
  tn__part *p = &written.part[0];
  if (p->group < 2) p->group = 2;
  p->ins = p->body->src;
  p->n = p->body->nsrc;
  return written;
}

tn__kernel *tn__lower(tn_ctx *c, tn__arena *a, tn_node *body, const tn__target *target, const tn__variant *variant,
                      uint32_t index) {
  if (tn__is_program(body)) return lower_program(c, a, body, target, index);
  tn__kernel *k = tn__arena_zalloc(a, sizeof *k);
  tn_node *part[TN__OWN_PARTS];
  body = take_requires(c, a, body, k);
  tn__lowering l = {.c = c, .a = a, .target = target, .next_range = range_ids(a, body)};
  l.variant = variant ? variant : tn__variant_at(0);
  tn__sb_init(&l.note, a);
  if (c->mode != TN_MODE_STRICT) body = tn__widen(c, a, body);
  tn_node *whole = tn__optimise_loops(&l, tn__separate(&l, tn__pick(&l, body)));
  double shared = 0;
  k->nparts = tn__cut_parts(c, a, whole, part);
  for (uint32_t p = 0; p < k->nparts; p++) {
    k->part[p].subgroup = target->subgroup;
    k->part[p].adds = target->adds;
    part[p] = tn__optimise_part(&l, part[p], &k->part[p]);
    shared += shared_by(a, part[p]);
    l.before = shared, l.staged = 0;
  }
  tn__find_memory(a, part, k);
  for (uint32_t p = 0; p < k->nparts; p++) {
    tn__linearise(c, a, part[p], &k->part[p]);
    if (k->part[p].group && k->nlocal) tn__place_barriers(c, a, &k->part[p]);
    tn__spec_linear(c, k->part[p].ins, k->part[p].n);
    k->part[p].blocks = tn__blocks_worth_starting(a, k, &k->part[p], target);
  }
  k->note = note_of(a, k, tn__sb_str(&l.note));
  k->name = name_of(a, body, k, index);
  return k;
}

static tn__part copy_part(tn__arena *a, const tn__part *p) {
  tn__part copy = *p;
  copy.ins = tn__arena_dup(a, p->ins, p->n * sizeof *p->ins);
  copy.tile = p->tile ? tn__arena_dup(a, p->tile, sizeof *p->tile) : NULL;
  return copy;
}

tn__kernel *tn__kernel_copy(tn__arena *a, const tn__kernel *k) {
  tn__kernel *copy = tn__arena_dup(a, k, sizeof *k);
  copy->name = tn__arena_strdup(a, k->name);
  copy->note = tn__arena_strdup(a, k->note);
  copy->ranking = k->ranking ? tn__arena_strdup(a, k->ranking) : NULL;
  copy->buf_dtype = tn__arena_dup(a, k->buf_dtype, k->nbuf);
  copy->buf_written = tn__arena_dup(a, k->buf_written, k->nbuf);
  copy->require = tn__arena_dup(a, k->require, k->nrequire * sizeof *k->require);
  copy->var = tn__arena_dup(a, k->var, k->nvar * sizeof *k->var);
  copy->local = tn__arena_dup(a, k->local, k->nlocal * sizeof *k->local);
  copy->local_at = tn__arena_dup(a, k->local_at, k->nlocal * sizeof *k->local_at);
  for (uint32_t p = 0; p < k->nparts; p++) copy->part[p] = copy_part(a, &k->part[p]);
  return copy;
}
