/* The rules of the DTYPE and SHAPE columns of ops.def.  Each is a function in a table; each breach names the op, the
 * types of all its sources, and the rule. */
#include "ir/shape.h"
#include "ir/build.h"
#include "ir/text.h"
#include <ctype.h>
#include <inttypes.h>

enum { SHOWN_SOURCES = 12 };

/* "gather(f32[3,4], f32[2]): the index must be an integer" */
static _Noreturn void breach(tn_ctx *c, const tn__make *m, tn_status status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void breach(tn_ctx *c, const tn__make *m, tn_status status, const char *fmt, ...) {
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  tn__sb_printf(&b, "%s(", tn__ops[m->op].text);
  for (uint32_t i = 0; i < m->nsrc && i < SHOWN_SOURCES; i++) {
    if (i) tn__sb_puts(&b, ", ");
    if (m->src[i]->dtype == TN__INDEX && !m->src[i]->rank) tn__print_expr(&b, m->src[i]);
    else tn__sb_puts(&b, tn__node_type(m->src[i], &c->scratch));
  }
  if (m->nsrc > SHOWN_SOURCES) tn__sb_puts(&b, ", ...");
  tn__sb_putc(&b, ')');
  if (m->nint && tn__ops[m->op].arg == ARG_INTS) {
    for (uint32_t i = 0; i < m->nint && i < SHOWN_SOURCES; i++)
      tn__sb_printf(&b, "%s%" PRId64, i ? " " : " {", m->ints[i]);
    tn__sb_putc(&b, '}');
  }
  tn__sb_puts(&b, ": ");
  va_list ap;
  va_start(ap, fmt);
  tn__sb_vprintf(&b, fmt, ap);
  va_end(ap);
  tn__fail(c, status, "%s", tn__sb_str(&b));
}

/* ---- dtypes ---- */

static int dt_src0(tn_ctx *c, const tn__make *m) {
  (void)c;
  return m->src[0]->dtype;
}

static int dt_void(tn_ctx *c, const tn__make *m) {
  (void)c, (void)m;
  return TN__VOID;
}

static int dt_same(tn_ctx *c, const tn__make *m) {
  int dt = m->src[0]->dtype;
  if (dt == TN__VOID) breach(c, m, TN_EDTYPE, "the source has no value");
  for (uint32_t i = 1; i < m->nsrc; i++)
    if (m->src[i]->dtype != dt) breach(c, m, TN_EDTYPE, "the dtypes differ; make them equal with tn_cast");
  return dt;
}

static int dt_bool(tn_ctx *c, const tn__make *m) {
  dt_same(c, m);
  return TN_BOOL;
}

static int dt_float(tn_ctx *c, const tn__make *m) {
  int dt = dt_same(c, m);
  if (!tn__is_float(dt)) breach(c, m, TN_EDTYPE, "needs a float dtype; convert with tn_cast");
  return dt;
}

static int dt_int(tn_ctx *c, const tn__make *m) {
  int dt = dt_same(c, m);
  if (!tn__is_int(dt)) breach(c, m, TN_EDTYPE, "needs an integer dtype");
  return dt;
}

static int dt_logic(tn_ctx *c, const tn__make *m) {
  int dt = dt_same(c, m);
  if (tn__is_float(dt)) breach(c, m, TN_EDTYPE, "needs bool or an integer dtype");
  return dt;
}

static int dt_where(tn_ctx *c, const tn__make *m) {
  int dt = m->src[1]->dtype;
  if (m->src[0]->dtype != TN_BOOL) breach(c, m, TN_EDTYPE, "the condition must be bool");
  if (dt == TN__VOID || m->src[2]->dtype != dt)
    breach(c, m, TN_EDTYPE, "the dtypes of the two values differ; make them equal with tn_cast");
  return dt;
}

static int dt_philox(tn_ctx *c, const tn__make *m) {
  if (dt_same(c, m) != TN_U64) breach(c, m, TN_EDTYPE, "element, key and counter must be u64");
  return TN_U32;
}

static int dt_given(tn_ctx *c, const tn__make *m) {
  if (m->dtype < 0 || m->dtype >= TN__VOID) breach(c, m, TN_EDTYPE, "there is no dtype number %d", m->dtype);
  if (tn__ops[m->op].group == G_CAST && m->src[0]->dtype == TN__VOID)
    breach(c, m, TN_EDTYPE, "the source has no value");
  return m->dtype;
}

static int dt_bitcast(tn_ctx *c, const tn__make *m) {
  int to = dt_given(c, m), from = m->src[0]->dtype;
  if (to == TN__INDEX || from == TN__INDEX || tn__size_of(to) != tn__size_of(from))
    breach(c, m, TN_EDTYPE, "%s has not the width of %s", tn__dtypes[to].name, tn__dtypes[from].name);
  return to;
}

static int (*const dtype_rules[DT_COUNT])(tn_ctx *, const tn__make *) = {
    [DT_SAME] = dt_same,   [DT_BOOL] = dt_bool,     [DT_FLOAT] = dt_float,     [DT_INT] = dt_int,
    [DT_LOGIC] = dt_logic, [DT_WHERE] = dt_where,   [DT_PHILOX] = dt_philox,   [DT_BITCAST] = dt_bitcast,
    [DT_GIVEN] = dt_given, [DT_SRC0] = dt_src0,     [DT_VOID] = dt_void,
};

/* ---- shapes: helpers ---- */

static void from_src0(const tn__make *m, tn__shape *out) {
  out->from = TN__DIMS_SRC0;
  out->rank = m->src[0]->rank;
}

static void put(tn_ctx *c, const tn__make *m, tn__shape *out, tn_node *dim) {
  if (out->rank == TN_MAX_RANK) breach(c, m, TN_ESHAPE, "the result would have more than %d axes", TN_MAX_RANK);
  out->own[out->rank++] = dim;
}

static void put_dims(tn_ctx *c, const tn__make *m, tn__shape *out, const tn_node *x, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) put(c, m, out, x->dim[i]);
}

/* Source i is a size, an offset or the like: an index scalar that is not certainly negative. */
static tn_node *count_at(tn_ctx *c, const tn__make *m, uint32_t i) {
  tn_node *n = m->src[i];
  if (n->dtype != TN__INDEX || n->rank) breach(c, m, TN_EDTYPE, "argument %u is no size", i + 1);
  if (n->hi < 0) breach(c, m, TN_ESHAPE, "argument %u is negative", i + 1);
  return n;
}

/* The result's dims are the sources from `first` on. */
static void from_tail(tn_ctx *c, const tn__make *m, tn__shape *out, uint32_t first) {
  out->from = TN__DIMS_TAIL;
  out->rank = m->nsrc - first;
  if (out->rank > TN_MAX_RANK) breach(c, m, TN_ESHAPE, "the result would have more than %d axes", TN_MAX_RANK);
  for (uint32_t i = first; i < m->nsrc; i++) count_at(c, m, i);
}

static void check_axes(tn_ctx *c, const tn__make *m) {
  for (uint32_t i = 0; i < m->nint; i++) {
    if (m->ints[i] < 0 || m->ints[i] >= m->src[0]->rank)
      breach(c, m, TN_ESHAPE, "axis %" PRId64 " is out of range for %d axes", m->ints[i], m->src[0]->rank);
    if (i && m->ints[i] <= m->ints[i - 1]) breach(c, m, TN_ESHAPE, "axes must ascend, each given once");
  }
}

static bool same_dims(const tn_node *x, uint32_t i, const tn_node *y, uint32_t j, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (x->dim[i + k] != y->dim[j + k]) return false;
  return true;
}

static tn_node *product(tn_ctx *c, tn_node *const *dim, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (tn__is_int_const(dim[i], 0)) return dim[i];
  tn_node *p = tn__int(c, 1);
  for (uint32_t i = 0; i < n; i++) p = tn__mul(c, p, dim[i]);
  return p;
}

/* ---- shapes: rules ---- */

static void sh_none(tn_ctx *c, const tn__make *m, tn__shape *out) {
  (void)c, (void)m, (void)out;
}

static void sh_src0(tn_ctx *c, const tn__make *m, tn__shape *out) {
  (void)c;
  from_src0(m, out);
}

static void sh_same(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  for (uint32_t i = 1; i < m->nsrc; i++)
    if (m->src[i]->rank != x->rank || !same_dims(x, 0, m->src[i], 0, x->rank))
      breach(c, m, TN_ESHAPE, "the shapes differ");
  from_src0(m, out);
}

static void sh_given(tn_ctx *c, const tn__make *m, tn__shape *out) { from_tail(c, m, out, 0); }

static void sh_reduce(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  check_axes(c, m);
  bool picks = m->op == OP_RMAX || m->op == OP_RMIN;
  for (uint32_t i = 0, k = 0; i < x->rank; i++) {
    if (k == m->nint || m->ints[k] != i) put(c, m, out, x->dim[i]);
    else if (k++, picks && tn__is_int_const(x->dim[i], 0))
      breach(c, m, TN_ESHAPE, "%s of nothing: axis %u has no elements", m->op == OP_RMAX ? "maximum" : "minimum", i);
  }
}

static void sh_reshape(tn_ctx *c, const tn__make *m, tn__shape *out) {
  from_tail(c, m, out, 1);
  tn_node *old = product(c, m->src[0]->dim, m->src[0]->rank), *new = product(c, m->src + 1, m->nsrc - 1);
  if (old == new) return;
  if (tn__is_const(old) && tn__is_const(new))
    breach(c, m, TN_ESHAPE, "%" PRId64 " elements cannot become %" PRId64, old->ints[0], new->ints[0]);
  if (!tn__size_common(c, old, new))
    breach(c, m, TN_ESHAPE, "the element counts are equal for no values of the symbolic sizes");
}

static void sh_expand(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  from_tail(c, m, out, 1);
  if (out->rank != x->rank) breach(c, m, TN_ESHAPE, "%d axes cannot become %u", x->rank, out->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dim[i] != m->src[i + 1] && !tn__is_int_const(x->dim[i], 1))
      breach(c, m, TN_ESHAPE, "axis %u has not size 1", i);
}

static void sh_permute(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  uint32_t seen = 0;
  bool good = m->nint == x->rank;
  for (uint32_t i = 0; good && i < m->nint; i++) {
    good = m->ints[i] >= 0 && m->ints[i] < x->rank && !(seen >> m->ints[i] & 1);
    if (good) seen |= 1u << m->ints[i];
  }
  if (!good) breach(c, m, TN_ESHAPE, "needs each of the %d axes once", x->rank);
  for (uint32_t i = 0; i < m->nint; i++) put(c, m, out, x->dim[m->ints[i]]);
}

static void sh_pad(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  if (m->nsrc != 1 + 2u * x->rank) breach(c, m, TN_ESHAPE, "needs two amounts for each of %d axes", x->rank);
  for (uint32_t i = 0; i < x->rank; i++) {
    tn_node *lo = count_at(c, m, 1 + 2 * i), *hi = count_at(c, m, 2 + 2 * i);
    put(c, m, out, tn__add(c, tn__add(c, x->dim[i], lo), hi));
  }
}

/* Nothing is taken where the size is 0. */
tn_node *tn__slice_end(tn_ctx *c, tn_node *begin, tn_node *size, int64_t step) {
  if (tn__is_int_const(size, 0)) return begin;
  tn_node *steps = tn__mul(c, tn__add(c, size, tn__int(c, -1)), tn__int(c, step));
  return tn__add(c, begin, tn__add(c, steps, tn__int(c, 1)));
}

static void sh_shrink(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  if (m->nsrc != 1 + 2u * x->rank || m->nint != x->rank)
    breach(c, m, TN_ESHAPE, "needs begin, size and step for each of %d axes", x->rank);
  for (uint32_t i = 0; i < x->rank; i++) {
    tn_node *begin = count_at(c, m, 1 + i), *size = count_at(c, m, 1 + x->rank + i);
    if (m->ints[i] < 1) breach(c, m, TN_ESHAPE, "the step along axis %u is not positive", i);
    if (tn__sub(c, tn__slice_end(c, begin, size, m->ints[i]), x->dim[i])->lo > 0)
      breach(c, m, TN_ESHAPE, "the slice of axis %u reaches beyond its end", i);
    put(c, m, out, size);
  }
}

static void sh_flip(tn_ctx *c, const tn__make *m, tn__shape *out) {
  check_axes(c, m);
  from_src0(m, out);
}

/* Places of a window on an axis of n: (n - span) idiv stride + 1, 0 where n < span = (size - 1)*dilation + 1. */
static tn_node *places(tn_ctx *c, const tn__make *m, tn_node *n) {
  int64_t size = m->ints[1], stride = m->ints[2], dilation = m->ints[3], span;
  if (size < 1 || stride < 1 || dilation < 1)
    breach(c, m, TN_ESHAPE, "size, stride and dilation of a window must be positive");
  if (__builtin_mul_overflow(size - 1, dilation, &span) || span > INT64_MAX - stride)
    breach(c, m, TN_ESHAPE, "the window is too large");
  tn_node *room = tn__add(c, n, tn__int(c, stride - span - 1));
  return tn__op2(c, OP_MAX, tn__op2(c, OP_IDIV, room, tn__int(c, stride)), tn__int(c, 0));
}

static uint32_t window_axis(tn_ctx *c, const tn__make *m, uint32_t rank) {
  if (m->ints[0] < 0 || m->ints[0] >= rank) breach(c, m, TN_ESHAPE, "axis %" PRId64 " is out of range", m->ints[0]);
  return (uint32_t)m->ints[0];
}

static void sh_window(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0];
  uint32_t a = window_axis(c, m, x->rank);
  put_dims(c, m, out, x, 0, a);
  put(c, m, out, places(c, m, x->dim[a]));
  put(c, m, out, tn__int(c, m->ints[1]));
  put_dims(c, m, out, x, a + 1, x->rank);
}

static void sh_fold(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *g = m->src[0];
  tn_node *n = count_at(c, m, 1);
  uint32_t a = window_axis(c, m, g->rank ? g->rank - 1u : 0);
  if (g->dim[a] != places(c, m, n) || g->dim[a + 1] != tn__int(c, m->ints[1]))
    breach(c, m, TN_ESHAPE, "axes %u and %u are not the windows of the given size", a, a + 1);
  put_dims(c, m, out, g, 0, a);
  put(c, m, out, n);
  put_dims(c, m, out, g, a + 2, g->rank);
}

static void check_index(tn_ctx *c, const tn__make *m) {
  if (m->src[0]->rank == 0) breach(c, m, TN_ESHAPE, "a scalar has no axis to index");
  if (!tn__is_int(m->src[1]->dtype)) breach(c, m, TN_EDTYPE, "the index must be an integer");
}

static void sh_gather(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *x = m->src[0], *idx = m->src[1];
  check_index(c, m);
  put_dims(c, m, out, idx, 0, idx->rank);
  put_dims(c, m, out, x, 1, x->rank);
}

const char *tn__combining_fault(const int64_t *ints, uint32_t nint, int to, int value) {
  if (nint > 1 || (nint && ints[0] != OP_MAX && ints[0] != OP_OR))
    return "it adds; {max} keeps what is greatest, {or} sets the bits of both";
  if (nint && ints[0] == OP_OR && !tn__is_int(to)) return "bits are those of integers";
  if (nint ? to == value : tn__is_addable(to, value)) return NULL;
  return "what is added has not the dtype of the base; convert with tn_cast";
}

static void sh_scatter(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *base = m->src[0], *idx = m->src[1], *upd = m->src[2];
  check_index(c, m);
  const char *fault = tn__combining_fault(m->ints, m->nint, base->dtype, upd->dtype);
  if (fault) breach(c, m, TN_EDTYPE, "%s", fault);
  if (upd->rank != idx->rank + base->rank - 1 || !same_dims(upd, 0, idx, 0, idx->rank) ||
      !same_dims(upd, idx->rank, base, 1, base->rank - 1u))
    breach(c, m, TN_ESHAPE, "what is added must have the index's axes, then the base's without its first");
  from_src0(m, out);
}

static void sh_contract(tn_ctx *c, const tn__make *m, tn__shape *out) {
  const tn_node *a = m->src[0], *b = m->src[1];
  for (uint32_t i = 0; i < 4; i++)
    if (m->ints[i] < 0 || m->ints[i] > TN_MAX_RANK) breach(c, m, TN_ESHAPE, "the axis groups are out of range");
  uint32_t nb = (uint32_t)m->ints[0], nm = (uint32_t)m->ints[1], nn = (uint32_t)m->ints[2], nk = (uint32_t)m->ints[3];
  if (a->rank != nb + nm + nk || b->rank != nb + nn + nk)
    breach(c, m, TN_ESHAPE, "the axis groups do not add up to the ranks");
  if (!same_dims(a, 0, b, 0, nb)) breach(c, m, TN_ESHAPE, "the batch axes differ");
  if (!same_dims(a, nb + nm, b, nb + nn, nk)) breach(c, m, TN_ESHAPE, "the contracted axes differ");
  put_dims(c, m, out, a, 0, nb + nm);
  put_dims(c, m, out, b, nb, nb + nn);
}

static void (*const shape_rules[SH_COUNT])(tn_ctx *, const tn__make *, tn__shape *) = {
    [SH_SCALAR] = sh_none,     [SH_VOID] = sh_none,       [SH_SAME] = sh_same,     [SH_GIVEN] = sh_given,
    [SH_REDUCE] = sh_reduce,   [SH_RESHAPE] = sh_reshape, [SH_EXPAND] = sh_expand, [SH_PERMUTE] = sh_permute,
    [SH_PAD] = sh_pad,         [SH_SHRINK] = sh_shrink,   [SH_FLIP] = sh_flip,     [SH_WINDOW] = sh_window,
    [SH_FOLD] = sh_fold,       [SH_GATHER] = sh_gather,   [SH_SCATTER] = sh_scatter, [SH_CONTRACT] = sh_contract,
    [SH_SRC0] = sh_src0,
};

/* ---- sources, arguments, devices ---- */

/* The text writes a variable's name bare inside shapes. */
static bool is_identifier(const char *s) {
  if (!s || (!isalpha((unsigned char)*s) && *s != '_')) return false;
  while (isalnum((unsigned char)*s) || *s == '_') s++;
  return !*s;
}

void tn__check_name(tn_ctx *c, const char *name) {
  if (is_identifier(name)) return;
  tn__fail(c, TN_EINVAL, "the name '%s' of a size is not made of letters, digits and underscores, no digit first",
           name ? name : "");
}

static void check_require(tn_ctx *c, const tn__make *m) {
  int64_t what = m->ints[0];
  if (what < 0 || what >= REQ_COUNT) breach(c, m, TN_EINVAL, "there is no such requirement");
  if (m->src[0]->op != OP_PARAM) breach(c, m, TN_EINVAL, "it is said of a buffer that the kernel is given");
  if (!tn__is_int(m->src[0]->dtype)) breach(c, m, TN_EDTYPE, "it is said of integers");
  if (m->nsrc != (what == REQ_IN ? 3 : 1))
    breach(c, m, TN_EINVAL, "%s takes %s", tn__requirement_names[what],
           what == REQ_IN ? "the least value, and the first one beyond the greatest" : "no numbers");
  for (uint32_t i = 1; i < m->nsrc; i++)
    if (m->src[i]->dtype != TN__INDEX) breach(c, m, TN_EDTYPE, "argument %u is no size", i + 1);
  bool some = true; /* there are elements */
  for (uint32_t i = 0; i < m->src[0]->rank; i++) some &= m->src[0]->dim[i]->lo > 0;
  if (what == REQ_IN && m->src[1]->lo > m->src[2]->hi - some) breach(c, m, TN_EBOUND, "no number lies there");
}

static void check_form(tn_ctx *c, const tn__make *m) {
  const tn__op_info *op = &tn__ops[m->op];
  if (m->nsrc < op->min_src || m->nsrc > op->max_src)
    breach(c, m, TN_EINVAL, "takes %u to %u sources, not %u", op->min_src, op->max_src, m->nsrc);
  if (op->nint ? m->nint != op->nint : op->arg == ARG_NONE && m->nint)
    breach(c, m, TN_EINVAL, "takes %d integers, not %u", op->nint, m->nint);
  if (m->op == OP_VAR && !(m->name && *m->name == TN__STAND_IN)) tn__check_name(c, m->name);
  if (m->op == OP_VAR && m->ints[0] > m->ints[1])
    breach(c, m, TN_EBOUND, "%s has no values: its bounds are empty", m->name);
  if (m->op == OP_DATUM && m->ints[1] < 0) breach(c, m, TN_EBOUND, "it has no values: its bound is negative");
  if (m->op == OP_REQUIRE) check_require(c, m);
  if (m->op == OP_RANGE && (m->ints[RANGE_AXIS] < 0 || m->ints[RANGE_AXIS] >= AX_COUNT))
    breach(c, m, TN_EINVAL, "there is no such axis type");
  if (m->op == OP_RANGE && (m->ints[RANGE_ROLE] < 0 || m->ints[RANGE_ROLE] >= ROLE_COUNT))
    breach(c, m, TN_EINVAL, "there is no such role");
  if (m->op == OP_RANGE && m->ints[RANGE_ID] < 0) breach(c, m, TN_EINVAL, "a loop's number is not negative");
}

/* Where the result lives: where its sources do.  Nodes without a value (a sink, a call) may join devices. */
static int infer_device(tn_ctx *c, const tn__make *m, int dtype) {
  if (m->op == OP_STORAGE || m->op == OP_PARAM || m->op == OP_BUFFER) {
    if (m->ints[1] < -1 || m->ints[1] > INT8_MAX)
      breach(c, m, TN_EDEVICE, "there is no device number %" PRId64, m->ints[1]);
    return (int)m->ints[1];
  }
  int device = -1;
  for (uint32_t i = 0; i < m->nsrc; i++) {
    int other = m->src[i]->device;
    if (other < 0 || other == device) continue;
    if (device >= 0 && dtype == TN__VOID) return -1;
    if (device >= 0)
      breach(c, m, TN_EDEVICE, "argument %u is on device %d, those before it on device %d; bring it there with tn_to",
             i + 1, other, device);
    device = other;
  }
  return device;
}

/* A tensor has at most 2^63 - 1 elements, so that counts and offsets never wrap. */
static void check_count(tn_ctx *c, const tn__make *m, tn_node *const *dim, uint32_t rank) {
  int64_t count = 1, d;
  bool over = false, symbolic = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (!tn__const_int(dim[i], &d)) {
      symbolic = true;
      continue;
    }
    if (d == 0) return;
    over |= __builtin_mul_overflow(count, d, &count);
  }
  if (over) breach(c, m, TN_ESHAPE, "the result would have more than 2^63 - 1 elements");
  if (symbolic) product(c, dim, rank); /* fails where the count's own numbers do not fit */
}

void tn__infer(tn_ctx *c, const tn__make *m, tn__inferred *out) {
  const tn__op_info *op = &tn__ops[m->op];
  check_form(c, m);
  out->dtype = dtype_rules[op->dtype_rule](c, m);
  out->device = infer_device(c, m, out->dtype);
  out->shape.from = TN__DIMS_OWN;
  out->shape.rank = 0;
  shape_rules[op->shape_rule](c, m, &out->shape);
  if (out->shape.from == TN__DIMS_OWN) check_count(c, m, out->shape.own, out->shape.rank);
  if (out->shape.from == TN__DIMS_TAIL && out->shape.rank)
    check_count(c, m, m->src + (m->nsrc - out->shape.rank), out->shape.rank);
}

/* ---- sizes ---- */

tn_node *tn__numel(tn_ctx *c, const tn_node *x) { return product(c, x->dim, x->rank); }

bool tn__dims_equal(tn_ctx *c, tn_node *const *a, tn_node *const *b, uint32_t n) {
  (void)c;
  for (uint32_t i = 0; i < n; i++)
    if (a[i] != b[i]) return false;
  return true;
}

tn_node *tn__size_common(tn_ctx *c, tn_node *a, tn_node *b) {
  if (a == b) return a;
  const tn_node *apart = tn__sub(c, a, b);
  if (apart->lo > 0 || apart->hi < 0 || a->hi < b->lo || b->hi < a->lo) return NULL;
  return tn__is_const(b) ? b : a;
}

tn_node *tn__axis_as(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *size) {
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i == axis ? size : x->dim[i];
  return tn__reshape(c, x, dim, x->rank);
}

tn_node *tn__taken_as(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank) {
  if (x->rank != rank) return NULL;
  for (uint32_t i = 0; i < rank; i++)
    if (!tn__size_common(c, x->dim[i], dims[i])) return NULL;
  /* one at a time: each is a constraint of its own */
  for (uint32_t i = 0; i < rank; i++) x = tn__axis_as(c, x, i, dims[i]);
  return x;
}
