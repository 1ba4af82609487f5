/* Products of tensors: everything becomes CONTRACT over batch, m, n and k axes. */
#include "tensor/operands.h"
#include <ctype.h>
#include <string.h>

static void want_numbers(tn_ctx *c, tn_node **x, int n) {
  tn__promote(c, x, n);
  tn__want(c, x[0], TN__C_NUM);
}

/* ---- matmul ---- */

/* Batch axes of the operands, the last two apart, broadcast to their common shape. */
static uint32_t broadcast_batch(tn_ctx *c, tn_node **x) {
  tn_node *batch[2];
  for (int i = 0; i < 2; i++) {
    tn__dims s = tn__dims_of(x[i]);
    batch[i] = tn__scalar_to(c, tn__const_bits(c, TN_BOOL, 0), s.d, s.rank - 2); /* only its shape matters */
  }
  tn__broadcast(c, batch, 2);
  for (int i = 0; i < 2; i++) {
    tn__dims to = tn__dims_of(batch[i]);
    if (to.rank + 2 > TN_MAX_RANK) tn__fail(c, TN_ESHAPE, "more than %d axes", TN_MAX_RANK);
    to.d[to.rank++] = x[i]->dim[x[i]->rank - 2];
    to.d[to.rank++] = x[i]->dim[x[i]->rank - 1];
    x[i] = tn__spread(c, x[i], &to);
  }
  return batch[0]->rank;
}

static tn_node *matmul(tn_ctx *c, tn__call *k) {
  tn_node *x[2] = {k->x[0], k->x[1]};
  for (int i = 0; i < 2; i++)
    if (!x[i]->rank)
      tn__fail(c, TN_ESHAPE, "needs at least one axis in %s and %s", tn__text(c, x[0]), tn__text(c, x[1]));
  want_numbers(c, x, 2);
  bool row = x[0]->rank == 1, column = x[1]->rank == 1;
  tn_node *ka = x[0]->dim[x[0]->rank - 1], *kb = x[1]->dim[column ? 0 : x[1]->rank - 2];
  tn_node *size = tn__size_common(c, ka, kb);
  if (!size) tn__fail(c, TN_ESHAPE, "%s and %s: the inner sizes differ", tn__text(c, x[0]), tn__text(c, x[1]));
  x[0] = tn__axis_as(c, x[0], x[0]->rank - 1u, size);
  x[1] = tn__axis_as(c, x[1], column ? 0 : x[1]->rank - 2u, size);
  if (column) return tn__contract(c, x[0], x[1], 0, x[0]->rank - 1, 0, 1);
  x[1] = tn__move_axis(c, x[1], x[1]->rank - 2u, x[1]->rank - 1u); /* [..., n, k] */
  if (x[1]->rank == 2) return tn__contract(c, x[0], x[1], 0, x[0]->rank - 1, 1, 1); /* all else of a is one long m */
  if (row) return tn__contract(c, x[1], x[0], 0, x[1]->rank - 1, 0, 1);
  int nb = (int)broadcast_batch(c, x);
  return tn__contract(c, x[0], x[1], nb, 1, 1, 1);
}

static void want_vectors(tn_ctx *c, tn_node **x) {
  want_numbers(c, x, 2);
  if (x[0]->rank != 1 || x[1]->rank != 1)
    tn__fail(c, TN_ESHAPE, "needs two vectors, not %s and %s", tn__text(c, x[0]), tn__text(c, x[1]));
}

static tn_node *dot(tn_ctx *c, tn__call *k) {
  tn_node *x[2] = {k->x[0], k->x[1]};
  want_vectors(c, x);
  tn_node *size = tn__size_common(c, x[0]->dim[0], x[1]->dim[0]);
  if (!size) tn__fail(c, TN_ESHAPE, "%s and %s differ in length", tn__text(c, x[0]), tn__text(c, x[1]));
  return tn__contract(c, tn__axis_as(c, x[0], 0, size), tn__axis_as(c, x[1], 0, size), 0, 0, 0, 1);
}

static tn_node *outer(tn_ctx *c, tn__call *k) {
  tn_node *x[2] = {k->x[0], k->x[1]};
  want_vectors(c, x);
  return tn__bcast2(c, OP_MUL, tn__add_axis(c, x[0], 1), x[1]);
}

#define PAIR(name_)                                                                                                    \
  tn_tensor *tn_##name_(tn_tensor *a, tn_tensor *b) {                                                                  \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = name_, .in = (tn_tensor *[]){a, b}, .nin = 2});           \
  }
PAIR(matmul)
PAIR(dot)
PAIR(outer)

/* ---- einsum ---- */

/* A label is a letter, or for axes under "..." DOTS + their place from the end. */
enum { DOTS = 128, LABELS = DOTS + TN_MAX_RANK };

typedef struct term {
  tn_node *x;
  int label[TN_MAX_RANK];
  uint32_t rank;
} term;

typedef struct sums {
  tn_ctx *c;
  const char *spec;
  uint32_t dots;          /* most axes that stand for "..." in an operand */
  int uses[LABELS];       /* operands not yet contracted that have the label, and 1 for the result */
  tn_node *size[LABELS];
} sums;

static _Noreturn void bad_spec(const sums *s, const char *why) {
  tn__fail(s->c, TN_EINVAL, "\"%s\": %s", s->spec, why);
}

static bool holds(const term *t, int label) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->label[i] == label) return true;
  return false;
}

static void put_label(const sums *s, term *t, int label) {
  if (t->rank == TN_MAX_RANK) bad_spec(s, "too many axes");
  t->label[t->rank++] = label;
}

/* Reads one side of a comma; "..." becomes `dots` labels, the last being DOTS. */
static const char *read_labels(const sums *s, const char *p, term *t, uint32_t dots) {
  bool seen = false;
  for (; *p && *p != ',' && strncmp(p, "->", 2); p++) {
    if (*p == ' ') continue;
    if (!strncmp(p, "...", 3)) {
      if (seen) bad_spec(s, "an operand has \"...\" twice");
      seen = true;
      for (uint32_t i = dots; i && i--;) put_label(s, t, DOTS + (int)i);
      p += 2;
    } else if (isalpha((unsigned char)*p)) {
      put_label(s, t, *p);
    } else {
      bad_spec(s, "only letters, \",\", \"...\" and \"->\" are understood");
    }
  }
  return p;
}

/* How many axes of an operand stand under its "...". */
static uint32_t count_dots(const sums *s, const char *p, const tn_node *x) {
  term letters = {0};
  bool dots = false;
  for (const char *q = p; *q && *q != ',' && strncmp(q, "->", 2); q++) dots |= *q == '.';
  read_labels(s, p, &letters, 0);
  if (letters.rank > x->rank || (!dots && letters.rank < x->rank))
    tn__fail(s->c, TN_ESHAPE, "\"%s\": %u labels do not fit %s", s->spec, letters.rank, tn__text(s->c, x));
  return dots ? x->rank - letters.rank : 0;
}

/* Equal labels in one operand: keeps the diagonal, by masking and summing one of the two axes. */
static void take_diagonals(const sums *s, term *t) {
  tn_ctx *c = s->c;
  for (uint32_t i = 0; i < t->rank; i++) {
    for (uint32_t j = i + 1; j < t->rank;) {
      if (t->label[j] != t->label[i]) {
        j++;
        continue;
      }
      tn_node *size = tn__size_common(c, t->x->dim[i], t->x->dim[j]);
      if (!size) bad_spec(s, "a diagonal over axes of different size");
      t->x = tn__axis_as(c, tn__axis_as(c, t->x, i, size), j, size);
      tn__dims shape = tn__dims_of(t->x);
      tn_node *on = tn__op2(c, OP_EQ, tn__place(c, &shape, i), tn__place(c, &shape, j));
      int64_t axis = j;
      t->x = tn__sum_axes(c, tn__where(c, on, t->x, tn__literal_like(c, t->x, 0)), &axis, 1, false);
      t->rank--;
      for (uint32_t m = j; m < t->rank; m++) t->label[m] = t->label[m + 1];
    }
  }
}

/* Does t have a label that neither `other` (may be NULL) nor anything still to come needs? */
static bool has_unused(const sums *s, const term *t, const term *other) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (!s->uses[t->label[i]] && !(other && holds(other, t->label[i]))) return true;
  return false;
}

/* Sums over the axes of those labels. */
static void sum_unused(const sums *s, term *t, const term *other) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = 0, kept = 0;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (s->uses[t->label[i]] || (other && holds(other, t->label[i]))) t->label[kept++] = t->label[i];
    else axes[n++] = i;
  }
  t->x = n ? tn__sum_axes(s->c, t->x, axes, n, false) : t->x;
  t->rank = kept;
}

/* t's axes in the order of `want`, which lists t's labels and no others. */
static tn_node *ordered(tn_ctx *c, const term *t, const int *want) {
  int64_t perm[TN_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++)
    for (uint32_t j = 0; j < t->rank; j++)
      if (t->label[j] == want[i]) perm[i] = j;
  return tn__permute(c, t->x, perm);
}

static uint32_t collect(int *out, const term *t, const sums *s, const term *other, bool shared, bool kept) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->rank; i++)
    if (holds(other, t->label[i]) == shared && (!shared || (s->uses[t->label[i]] > 0) == kept)) out[n++] = t->label[i];
  return n;
}

/* The product of a and b, summed over all labels that nothing else needs. What only one of them has is summed first and
 * stays in the dtype in which sums accumulate: the result is rounded once. */
static term contract_pair(const sums *s, term a, term b) {
  tn_ctx *c = s->c;
  int dtype = a.x->dtype;
  if (has_unused(s, &a, &b) || has_unused(s, &b, &a)) {
    a.x = tn__acc(c, a.x);
    b.x = tn__acc(c, b.x);
  }
  int batch[TN_MAX_RANK], m[TN_MAX_RANK], n[TN_MAX_RANK], k[TN_MAX_RANK];
  sum_unused(s, &a, &b);
  sum_unused(s, &b, &a);
  uint32_t nb = collect(batch, &a, s, &b, true, true), nk = collect(k, &a, s, &b, true, false);
  uint32_t nm = collect(m, &a, s, &b, false, true), nn = collect(n, &b, s, &a, false, true);
  term out = {0};
  int wa[TN_MAX_RANK], wb[TN_MAX_RANK];
  for (uint32_t i = 0; i < nb; i++) {
    wa[i] = wb[i] = batch[i];
    put_label(s, &out, batch[i]);
  }
  for (uint32_t i = 0; i < nm; i++) put_label(s, &out, wa[nb + i] = m[i]);
  for (uint32_t i = 0; i < nn; i++) put_label(s, &out, wb[nb + i] = n[i]);
  for (uint32_t i = 0; i < nk; i++) wa[nb + nm + i] = wb[nb + nn + i] = k[i];
  tn_node *product = tn__contract(c, ordered(c, &a, wa), ordered(c, &b, wb), (int)nb, (int)nm, (int)nn, (int)nk);
  out.x = tn__cast(c, product, dtype);
  return out;
}

/* One size per label: equal for letters, broadcast for "...". */
static void unify_sizes(sums *s, term *t, int n) {
  tn_ctx *c = s->c;
  for (int i = 0; i < n; i++)
    for (uint32_t a = 0; a < t[i].rank; a++) {
      int label = t[i].label[a];
      tn_node *d = t[i].x->dim[a], **size = &s->size[label];
      bool dots = label >= DOTS;
      if (!*size || (dots && tn__is_int_const(*size, 1))) *size = d;
      else if (!(dots && tn__is_int_const(d, 1)) && !(*size = tn__size_common(c, *size, d)))
        tn__fail(c, TN_ESHAPE, "\"%s\": sizes of axis %c differ: %s does not fit an operand before it", s->spec,
                 dots ? '.' : label, tn__text(c, t[i].x));
    }
  for (int i = 0; i < n; i++) {
    tn__dims to = {.rank = t[i].rank};
    for (uint32_t a = 0; a < t[i].rank; a++) to.d[a] = s->size[t[i].label[a]];
    t[i].x = tn__spread(c, t[i].x, &to);
  }
}

/* What stands after "->", or without it the labels of "..." and those that occur once, by the alphabet. */
static term read_result(const sums *s, const char *p, const int *occurs) {
  term out = {0};
  if (*p) {
    p = read_labels(s, p + 2, &out, s->dots);
    if (*p) bad_spec(s, "the result must be last");
  } else {
    for (uint32_t i = s->dots; i && i--;) put_label(s, &out, DOTS + (int)i);
    for (int l = 0; l < DOTS; l++)
      if (occurs[l] == 1) put_label(s, &out, l);
  }
  for (uint32_t i = 0; i < out.rank; i++) {
    if (!occurs[out.label[i]]) bad_spec(s, "the result has a label that no operand has");
    for (uint32_t j = 0; j < i; j++)
      if (out.label[i] == out.label[j]) bad_spec(s, "the result has a label twice");
  }
  return out;
}

static tn_node *einsum(tn_ctx *c, tn__call *k) {
  sums s = {.c = c, .spec = k->p};
  int n = k->nin, occurs[LABELS] = {0};
  if (!s.spec) tn__fail(c, TN_EINVAL, "the specification is NULL");
  term *t = tn__alloc(c, (size_t)n * sizeof *t);
  tn_node **x = tn__alloc(c, (size_t)n * sizeof *x);
  for (int i = 0; i < n; i++) x[i] = k->in[i]->node;
  want_numbers(c, x, n);
  const char *p = s.spec;
  for (int i = 0; i < n; i++) {
    if (i && *p++ != ',') bad_spec(&s, "fewer operands than tensors");
    t[i] = (term){.x = x[i]};
    uint32_t dots = count_dots(&s, p, x[i]);
    if (dots > s.dots) s.dots = dots;
    p = read_labels(&s, p, &t[i], dots);
    for (uint32_t a = 0; a < t[i].rank; a++) occurs[t[i].label[a]]++;
    take_diagonals(&s, &t[i]);
  }
  if (*p == ',') bad_spec(&s, "more operands than tensors");
  unify_sizes(&s, t, n);
  term result = read_result(&s, p, occurs);
  for (uint32_t a = 0; a < result.rank; a++) s.uses[result.label[a]]++;
  for (int i = 0; i < n; i++)
    for (uint32_t a = 0; a < t[i].rank; a++) s.uses[t[i].label[a]]++;
  term all = t[0];
  for (uint32_t a = 0; a < all.rank; a++) s.uses[all.label[a]]--;
  for (int i = 1; i < n; i++) {
    for (uint32_t a = 0; a < t[i].rank; a++) s.uses[t[i].label[a]]--;
    all = contract_pair(&s, all, t[i]);
  }
  sum_unused(&s, &all, NULL);
  return ordered(c, &all, result.label);
}

tn_tensor *tn_einsum(const char *spec, tn_tensor *const *in, int n) {
  return tn__build(&(tn__call){.name = "tn_einsum", .fn = einsum, .in = in, .nin = in ? n : 0, .p = spec});
}
