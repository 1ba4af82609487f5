/* Vector loops as generated C against the interpreter, bit for bit: every op, cast and kind of access, over counts
 * around the number of lanes.  `make check-levels` runs this at every level of the processor, by every compiler. */
#include "support/ref_and_cpu.h"

static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 35, 63, 64, 65, 130, 1000};
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 1000, ROOM = 5 * MOST };

/* ---- values ---- */

static void ops_in_lanes(void **state) { run_every_op(*state, AX_UPCAST); }
static void casts_in_lanes(void **state) { run_every_cast(*state, AX_UPCAST); }

/* ---- accesses ---- */

/* How places follow each other from lane to lane; APART: by 2, 3 or 4, as the dtype says; BY_TWO and so on: by that */
enum { NEXT, APART, BACKWARD, ONE, TABLE, WRAPPED, WAYS, BY_TWO = WAYS, BY_THREE, BY_FOUR };

/* What is gated: nothing; all alike; lane by lane, at a bound, within two of them, outside of two, and by what is
 * loaded. */
enum { OPEN, ALIKE, BOUND, WITHIN, ENDS, LOADED, GATINGS };

typedef struct access_kernel {
  lin *l;
  tn_node *out, *x, *table, *open, *n, *r, *u;
} access_kernel;

/* Of elements of dtype, made of those of `from` */
static access_kernel start(tn_ctx *c, const char *kind, int way, int gating, int dtype, int from, bool constant,
                           int64_t count) {
  access_kernel k;
  char name[32];
  snprintf(name, sizeof name, "%s%d%d_%s_%d", kind, way, gating, tn__dtypes[dtype].name, constant ? (int)count : 0);
  k.l = lin_new(c, name);
  k.out = lin_buf(k.l, dtype, true);
  k.x = lin_buf(k.l, from, false);
  k.table = lin_buf(k.l, TN_I32, false);
  k.open = lin_buf(k.l, TN_BOOL, false);
  k.n = lin_var(k.l, "n", 0, MOST);
  k.r = lin_range(k.l, tn__int(c, 2), AX_GLOBAL, 0);
  k.u = lin_range(k.l, constant ? tn__int(c, count) : k.n, AX_UPCAST, 1);
  return k;
}

/* Where lane u of row r is, in a buffer of ROOM elements */
static tn_node *place(tn_ctx *c, access_kernel *k, int way) {
  lin *l = k->l;
  tn_node *row = lin_raw2(l, OP_MUL, k->r, tn__int(c, MOST)), *at = k->u; /* in the order of instructions */
  switch (way) {
  case APART: case BY_TWO: case BY_THREE: case BY_FOUR: /* rows begin at an odd distance: they do not meet */
    at = lin_raw2(l, OP_MUL, k->u, tn__int(c, 2 + (way == APART ? k->x->dtype / 2 % 3 : way - BY_TWO)));
    at = lin_raw2(l, OP_ADD, at, k->r);
    break;
  case BACKWARD: {
    tn_node *back = lin_raw1(l, OP_NEG, k->u);
    at = lin_raw2(l, OP_ADD, back, tn__int(c, MOST));
    break;
  }
  case ONE: return lin_raw2(l, OP_ADD, row, tn__int(c, 5));
  case TABLE: {
    tn_node *v = lin_load(l, k->table, lin_raw2(l, OP_ADD, row, k->u), NULL);
    at = lin_make(l, OP_CAST, TN__INDEX, &v, 1, NULL, 0);
    return lin_add(l, at);
  }
  case WRAPPED: {
    tn_node *by = tn__int(c, 7), *first = lin_raw2(l, OP_MOD, k->u, by), *then = lin_raw2(l, OP_IDIV, k->u, by);
    first = lin_raw2(l, OP_MUL, first, tn__int(c, 143)); /* rows stay apart */
    at = lin_raw2(l, OP_ADD, first, then);
    break;
  }
  default: break;
  }
  return lin_raw2(l, OP_ADD, row, at);
}

static tn_node *gate_of(tn_ctx *c, access_kernel *k, int gating) {
  lin *l = k->l;
  switch (gating) {
  case ALIKE: return lin_raw2(l, OP_LT, k->r, tn__int(c, 1));
  case BOUND: return lin_raw2(l, OP_LE, tn__int(c, 3), lin_raw2(l, OP_ADD, k->u, k->r));
  case WITHIN: {
    tn_node *at = lin_raw2(l, OP_ADD, k->u, k->r), *from = lin_raw2(l, OP_LT, tn__int(c, 1), at);
    return lin_raw2(l, OP_AND, from, lin_raw2(l, OP_LE, lin_raw2(l, OP_ADD, k->u, tn__int(c, 7)), tn__int(c, 990)));
  }
  case ENDS: {
    tn_node *back = lin_raw1(l, OP_NEG, k->u), *first = lin_raw2(l, OP_LT, tn__int(c, -3), back);
    tn_node *inside = lin_raw2(l, OP_LE, k->u, tn__int(c, 975));
    return lin_raw2(l, OP_OR, first, lin_raw1(l, OP_NOT, inside));
  }
  case LOADED: return lin_load(l, k->open, k->u, NULL);
  default: return NULL;
  }
}

/* out[next] = x[way], or out[way] = x[next], or +=; narrowed: x is narrower than out */
static lin *access(tn_ctx *c, tn__op op, int way, int gating, int dtype, bool narrowed, bool constant, int64_t count) {
  const char *kind = narrowed ? "narrow" : op == OP_LOAD ? "load" : op == OP_STORE ? "store" : "add";
  int from = narrowed ? TN_I32 : dtype;
  access_kernel k = start(c, kind, way, gating, dtype, from, constant, count);
  tn_node *next = place(c, &k, NEXT), *far = place(c, &k, way), *gate = gate_of(c, &k, gating);
  tn_node *v = lin_load(k.l, k.x, op == OP_LOAD ? far : next, op == OP_LOAD ? gate : NULL);
  if (gating > BOUND) {
    tn_node *other = lin_load(k.l, k.x, next, NULL);
    v = lin_add(k.l, lin_make(k.l, OP_WHERE, from, (tn_node *[]){gate, v, other}, 3, NULL, 0));
  }
  if (narrowed) v = lin_add(k.l, lin_make(k.l, OP_CAST, dtype, &v, 1, NULL, 0));
  if (op == OP_LOAD) lin_store(k.l, OP_STORE, k.out, next, v, NULL);
  else lin_store(k.l, op, k.out, far, v, gate);
  lin_end(k.l, k.u);
  lin_end(k.l, k.r);
  return k.l;
}

static void fill(int dtype, char *x, int64_t n, int seed) {
  for (int64_t i = 0; i < n; i++)
    tn__eval_store(dtype, x + (size_t)i * tn__size_of(dtype),
                   tn__eval_cast(TN_I64, dtype, (uint64_t)((i * 37 + seed) % 101 - 50)));
}

static void run_accesses(fixture *f, tn__op op, int way, int dtype, bool narrowed) {
  static char out[ROOM * 8], x[ROOM * 8];
  static int32_t table[ROOM];
  static uint8_t open[ROOM];
  static const int64_t fixed[] = {5, 70};
  enum { FIXED = sizeof fixed / sizeof *fixed };
  static unsigned long seen;
  if (!is_taken(&seen)) return;
  lin *l[GATINGS * (1 + FIXED)];
  uint32_t n = 0;
  for (int gating = 0; gating < GATINGS; gating++) {
    l[n++] = access(&f->c, op, way, gating, dtype, narrowed, false, 0);
    for (int k = 0; k < FIXED; k++) l[n++] = access(&f->c, op, way, gating, dtype, narrowed, true, fixed[k]);
  }
  int from = narrowed ? TN_I32 : dtype;
  fill(dtype, out, ROOM, 3);
  fill(from, x, ROOM, 11);
  for (int i = 0; i < ROOM; i++) { /* lanes that store are apart, and rows: slices run at once */
    table[i] = (i * 31 + 7) % (op == OP_STOREADD ? 13 : MOST) + i / MOST * MOST;
    open[i] = i % 3 != 1;
  }
  tn__code *code[2] = {compile_on(f->ref, l, n), compile_on(f->cpu, l, n)};
  size_t size = tn__size_of(dtype) * ROOM, of_x = tn__size_of(from) * ROOM;
  for (uint32_t i = 0; i < n; i++)
    for (int k = 0; k < (i % (1 + FIXED) ? 1 : COUNTS); k++)
      run_both(f, code, i, l[i], (const void *[]){out, x, table, open},
               (size_t[]){size, of_x, sizeof table, sizeof open}, (int64_t[]){counts[k]}, NULL);
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* A load and a store by each way in each dtype; lanes of a store do not meet but where all hold one place. */
static void accesses_in_lanes(void **state) {
  fixture *f = *state;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++)
    for (int way = dtype % 2; way < WAYS; way += 2) { /* a compiler works on all of them for minutes */
      run_accesses(f, OP_LOAD, way, dtype, false);
      run_accesses(f, OP_STORE, (way + 1) % WAYS, dtype, false);
      if (way == NEXT) run_accesses(f, OP_LOAD, APART, dtype, false);
    }
}

/* Cells of one byte and of two that are two to four apart */
static void small_cells_apart(void **state) {
  for (int way = BY_TWO; way <= BY_FOUR; way++) {
    run_accesses(*state, OP_LOAD, way, TN_U8, false);
    run_accesses(*state, OP_LOAD, way, TN_I16, false);
  }
}

/* Narrow values that are stored as i64, side by side in vectors' halves, and one by one */
static void narrow_stores(void **state) {
  run_accesses(*state, OP_STORE, NEXT, TN_I64, true);
  run_accesses(*state, OP_STORE, WRAPPED, TN_I64, true);
}

/* Lanes that add to one place do so one after the other. */
static void additions_meet_in_order(void **state) {
  fixture *f = *state;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++)
    for (int way = dtype % 2; way < WAYS; way += 2) run_accesses(f, OP_STOREADD, way, dtype, false);
}

/* ---- accumulators ---- */

static void accumulators_in_lanes(void **state) {
  fixture *f = *state;
  static const int64_t ops[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_FMA}, lanes[] = {1, 4, 16, 32, 128};
  static char out[FOLD_ROWS * FOLD_ROOM * 8], x[sizeof out], y[sizeof out];
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    static unsigned long seen;
    lin *l[25];
    uint32_t n = 0;
    for (int i = 0; i < 5; i++)
      for (int k = 0; k < 5; k++)
        if (is_taken(&seen)) l[n++] = fold_kernel(&f->c, ops[i], dtype, lanes[k]);
    if (!n) continue;
    fill(dtype, x, FOLD_ROWS * FOLD_ROOM, 11);
    fill(dtype, y, FOLD_ROWS * FOLD_ROOM, 5);
    tn__code *code[2] = {compile_on(f->ref, l, n), compile_on(f->cpu, l, n)};
    size_t size = FOLD_ROWS * FOLD_ROOM * tn__size_of(dtype);
    for (uint32_t i = 0; i < n; i++)
      for (int k = 0; k < COUNTS; k++)
        run_both(f, code, i, l[i], (const void *[]){out, x, y}, (size_t[]){size, size, size},
                 (int64_t[]){counts[k] < FOLD_ROOM - 40 ? counts[k] : FOLD_ROOM - 40}, NULL);
    f->ref->ops->release(f->ref, code[0]);
    f->cpu->ops->release(f->cpu, code[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ops_in_lanes), cmocka_unit_test(casts_in_lanes),
                                     cmocka_unit_test(accesses_in_lanes), cmocka_unit_test(small_cells_apart),
                                     cmocka_unit_test(narrow_stores),
                                     cmocka_unit_test(additions_meet_in_order),
                                     cmocka_unit_test(accumulators_in_lanes)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
