/* Linear kernels built by hand, and their running on a device with sentinels around every buffer. */
#ifndef TN_TEST_SUPPORT_LINEAR_H
#define TN_TEST_SUPPORT_LINEAR_H
#include "device/device.h"
#include "ir/build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIN_INS = 512, LIN_BUFS = 20, LIN_GUARD = 64 };

typedef struct lin { /* a kernel that grows */
  tn_ctx *c;
  tn__kernel k;
  tn_node *ins[2][LIN_INS], *var[4], *local[2];
  uint8_t dtype[LIN_BUFS], written[LIN_BUFS];
  int64_t local_at[2];
  char name[32];
} lin;

static inline lin *lin_new(tn_ctx *c, const char *name) {
  lin *l = tn__arena_zalloc(&c->scratch, sizeof *l);
  l->c = c;
  snprintf(l->name, sizeof l->name, "%s", name);
  l->k = (tn__kernel){.name = l->name,
                      .buf_dtype = l->dtype,
                      .buf_written = l->written,
                      .var = l->var,
                      .local = l->local,
                      .local_at = l->local_at,
                      .nparts = 1};
  l->k.part[0] = (tn__part){.ins = l->ins[0], .grain = 1, .subgroup = 32};
  l->k.part[1] = (tn__part){.ins = l->ins[1], .grain = 1, .subgroup = 32};
  return l;
}
/* Appends an instruction to the last part. */
static inline tn_node *lin_add(lin *l, tn_node *n) {
  tn__part *p = &l->k.part[l->k.nparts - 1];
  p->ins[p->n++] = n;
  return n;
}
static inline tn_node *lin_make(lin *l, tn__op op, int dtype, tn_node *const *src, uint32_t nsrc, const int64_t *ints,
                                uint32_t nint) {
  return tn__node_make(l->c,
                       &(tn__make){.op = op, .dtype = dtype, .src = src, .nsrc = nsrc, .ints = ints, .nint = nint});
}
static inline tn_node *lin_buf(lin *l, int dtype, bool written) {
  uint32_t slot = l->k.nbuf++;
  tn_node *size = tn__int(l->c, 1);
  l->dtype[slot] = (uint8_t)dtype;
  l->written[slot] = written;
  return tn__param(l->c, dtype, slot, -1, &size, 1);
}
static inline tn_node *lin_var(lin *l, const char *name, int64_t lo, int64_t hi) {
  return l->var[l->k.nvar++] = tn__var(l->c, name, lo, hi);
}
/* threads: as in lower/kernel.h; those that are shared come first */
static inline tn_node *lin_local_of(lin *l, int dtype, int64_t size, int64_t threads) {
  int64_t number = l->k.nlocal++;
  l->local_at[number] = l->k.scratch;
  l->k.scratch += (size * (int64_t)tn__size_of(dtype) + 63) / 64 * 64;
  if (!threads) l->k.shared = l->k.scratch;
  return l->local[number] =
             lin_make(l, OP_LOCAL, dtype, (tn_node *[]){tn__int(l->c, size)}, 1, (int64_t[]){number, threads}, 2);
}
static inline tn_node *lin_local(lin *l, int dtype, int64_t size) { return lin_local_of(l, dtype, size, 0); }
static inline tn_node *lin_range(lin *l, tn_node *extent, int axis, int64_t number) {
  tn_node *r = lin_add(l, tn__range(l->c, extent, axis, ROLE_OUTPUT, number));
  if (axis == AX_GLOBAL) l->k.part[l->k.nparts - 1].global = r;
  return r;
}
static inline tn_node *lin_end(lin *l, tn_node *range) {
  return lin_add(l, lin_make(l, OP_END, 0, &range, 1, NULL, 0));
}
static inline void lin_barrier(lin *l, int64_t number) { lin_add(l, lin_make(l, OP_BARRIER, 0, NULL, 0, &number, 1)); }
static inline tn_node *lin_load(lin *l, tn_node *buf, tn_node *index, tn_node *gate) {
  return lin_add(l, lin_make(l, OP_LOAD, 0, (tn_node *[]){buf, index, gate}, gate ? 3 : 2, NULL, 0));
}
static inline void lin_store(lin *l, tn__op op, tn_node *buf, tn_node *index, tn_node *value, tn_node *gate) {
  lin_add(l, lin_make(l, op, 0, (tn_node *[]){buf, index, value, gate}, gate ? 4 : 3, NULL, 0));
}
static inline tn_node *lin_acc(lin *l, tn_node *init, int64_t number, int64_t lanes) {
  return lin_add(l, lin_make(l, OP_ACC, 0, &init, 1, (int64_t[]){number, lanes, 1}, 3));
}
static inline void lin_setacc(lin *l, int64_t op, tn_node *acc, tn_node *value, tn_node *lane) {
  lin_add(l, lin_make(l, OP_SETACC, 0, (tn_node *[]){acc, value, lane}, lane ? 3 : 2, &op, 1));
}
static inline tn_node *lin_getacc(lin *l, int64_t op, tn_node *acc, tn_node *end, tn_node *lane) {
  return lin_add(l, lin_make(l, OP_GETACC, 0, (tn_node *[]){acc, end, lane}, lane ? 3 : 2, &op, 1));
}
/* As it is written: an index is not brought into its normal form. */
static inline tn_node *lin_raw1(lin *l, tn__op op, tn_node *x) {
  return lin_add(l, lin_make(l, op, x->dtype, &x, 1, NULL, 0));
}
static inline tn_node *lin_raw2(lin *l, tn__op op, tn_node *x, tn_node *y) {
  bool compares = op == OP_LT || op == OP_LE;
  return lin_add(l, lin_make(l, op, compares ? TN_BOOL : x->dtype, (tn_node *[]){x, y}, 2, NULL, 0));
}
#define lin_op1(l, op, x) lin_add(l, tn__op1((l)->c, op, x))
#define lin_op2(l, op, x, y) lin_add(l, tn__op2((l)->c, op, x, y))
#define lin_op3(l, op, x, y, z) lin_add(l, tn__op3((l)->c, op, x, y, z))

/* Buffers of a run: guard, content, guard. */
typedef struct lin_bufs {
  char *block[LIN_BUFS];
  void *mem[LIN_BUFS];
  size_t bytes[LIN_BUFS];
} lin_bufs;

static inline void lin_bufs_set(lin_bufs *b, uint32_t slot, const void *from, size_t bytes) {
  size_t room = (bytes + LIN_GUARD - 1) / LIN_GUARD * LIN_GUARD;
  b->block[slot] = aligned_alloc(LIN_GUARD, room + 2 * LIN_GUARD);
  memset(b->block[slot], 0xc5, room + 2 * LIN_GUARD);
  b->mem[slot] = b->block[slot] + LIN_GUARD;
  b->bytes[slot] = bytes;
  if (from) memcpy(b->mem[slot], from, bytes);
}
static inline bool lin_bufs_sound(const lin_bufs *b, uint32_t n) {
  for (uint32_t s = 0; s < n; s++)
    for (size_t i = 0; i < LIN_GUARD; i++)
      if (b->block[s][i] != (char)0xc5 || b->block[s][LIN_GUARD + b->bytes[s] + i] != (char)0xc5) return false;
  return true;
}
static inline void lin_bufs_free(lin_bufs *b, uint32_t n) {
  for (uint32_t s = 0; s < n; s++) free(b->block[s]);
}
#endif
