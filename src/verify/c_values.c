/* Values and instructions: conversions and arithmetic as C has them, of numbers and of pointers. */
#include "verify/c_reader.h"

uint32_t tn__c_constant(reader *r, tn__exact v) {
  tn__vec_push(r->a, &r->reg, v);
  return r->reg.n - 1;
}

uint32_t tn__c_put(reader *r, tn__c_ins i) {
  i.at = r->word.v[r->at ? r->at - 1 : 0].at;
  tn__vec_push(r->a, &r->ins, i);
  return r->ins.n - 1;
}

uint32_t tn__c_cells(reader *r, int64_t n) {
  if (n < 1 || n > 1 << 16) tn__c_refuse(r, "an array of an odd size");
  uint32_t first = new_reg(r);
  for (int64_t i = 1; i < n; i++) new_reg(r);
  return first;
}

static int64_t size_of(tn__c_type t) { return t.stars ? 8 : t.bytes; }

uint32_t tn__c_value(reader *r, ex *x) {
  if (x->where == IN_REG || x->where == VARIABLE) return x->reg;
  if (x->type.dtype == TN__VOID && !x->type.stars) tn__c_refuse(r, "a value of many bytes");
  if (x->where == WIDE_CELL) tn__c_refuse(r, "a wide element as a value");
  uint32_t dst = new_reg(r);
  if (x->where == CELL)
    tn__c_put(r, (tn__c_ins){.code = TN__C_GET_CELL, .dst = dst, .a = x->reg, .b = x->index, .n = x->count});
  else
    tn__c_put(r, (tn__c_ins){
                     .code = TN__C_LOAD, .dst = dst, .a = x->reg, .dtype = x->type.dtype, .op = x->type.stars});
  *x = in_reg(x->type, dst);
  return dst;
}

uint32_t tn__c_converted(reader *r, ex x, tn__c_type to) {
  uint32_t from = tn__c_value(r, &x);
  if (x.type.lanes != to.lanes || (to.lanes && x.type.dtype != to.dtype)) tn__c_refuse(r, "a vector of another type");
  if (x.type.stars != to.stars) tn__c_refuse(r, "a pointer for a number");
  if (to.stars || x.type.dtype == to.dtype) return from;
  if (x.type.dtype == TN__VOID || to.dtype == TN__VOID) tn__c_refuse(r, "a value of nothing");
  uint32_t dst = new_reg(r);
  tn__c_put(r, (tn__c_ins){.code = TN__C_CONVERT, .dst = dst, .a = from, .dtype = to.dtype, .sdtype = x.type.dtype});
  return dst;
}

uint32_t tn__c_truth(reader *r, ex x) {
  if (x.type.stars || x.type.lanes) tn__c_refuse(r, "the truth of a pointer or a vector");
  return tn__c_converted(r, x, plain(TN_BOOL));
}

int tn__c_promoted(int dtype) { return tn__is_float(dtype) || tn__size_of(dtype) >= 4 ? dtype : TN_I32; }

int tn__c_common_dtype(int x, int y) {
  if (x == TN_F64 || y == TN_F64) return TN_F64;
  if (x == TN_F32 || y == TN_F32) return TN_F32;
  x = tn__c_promoted(x), y = tn__c_promoted(y);
  if (tn__size_of(x) != tn__size_of(y)) return tn__size_of(x) > tn__size_of(y) ? x : y;
  return tn__dtypes[x].is_signed ? y : x;
}

void tn__c_assign(reader *r, ex to, uint32_t reg) {
  switch (to.where) {
  case VARIABLE: tn__c_lanes_move(r, to.reg, in_reg(to.type, reg)); return;
  case CELL:
    tn__c_put(r, (tn__c_ins){.code = TN__C_SET_CELL, .a = to.reg, .b = to.index, .c = reg, .n = to.count});
    return;
  case MEMORY: tn__c_put(r, (tn__c_ins){.code = TN__C_STORE, .a = to.reg, .c = reg, .dtype = to.type.dtype}); return;
  default: tn__c_refuse(r, "an assignment to a value");
  }
}

void tn__c_assign_wide(reader *r, ex to, ex from) {
  bool gets = to.where == WIDE_CELL;
  ex cells = gets ? to : from, memory = gets ? from : to;
  if (memory.where != MEMORY || size_of(memory.type) != size_of(cells.type)) tn__c_refuse(r, "an odd wide access");
  tn__c_put(r, (tn__c_ins){.code = gets ? TN__C_WIDE_GET : TN__C_WIDE_PUT,
                           .a = cells.reg,
                           .b = cells.index,
                           .c = memory.reg,
                           .n = cells.count,
                           .dtype = cells.type.dtype,
                           .op = (uint8_t)size_of(memory.type)});
}

ex tn__c_arithmetic(reader *r, int op, ex x, ex y) {
  tn__c_value(r, &x), tn__c_value(r, &y);
  if ((x.type.lanes && !x.type.stars) || (y.type.lanes && !y.type.stars)) return tn__c_lanes_arithmetic(r, op, x, y);
  uint32_t dst = new_reg(r);
  if (x.type.stars || y.type.stars) { /* pointer + number */
    ex *p = x.type.stars ? &x : &y, *n = x.type.stars ? &y : &x;
    tn__c_type of = p->type;
    if (op != TN__C_ADD || n->type.stars || tn__is_float(n->type.dtype)) tn__c_refuse(r, "arithmetic on pointers");
    of.stars--;
    tn__c_put(r, (tn__c_ins){.code = TN__C_PLACE, .dst = dst, .a = p->reg, .b = n->reg, .n = size_of(of)});
    return in_reg(p->type, dst);
  }
  bool compares = op >= TN__C_LT && op <= TN__C_NE;
  bool shifts = op == TN__C_SHL || op == TN__C_SHR;
  int dtype = shifts ? tn__c_promoted(x.type.dtype) : tn__c_common_dtype(x.type.dtype, y.type.dtype);
  bool bits = op == TN__C_REM || (op >= TN__C_AND && op <= TN__C_SHR);
  if (bits && tn__is_float(dtype)) tn__c_refuse(r, "bits of a float");
  uint32_t a = tn__c_converted(r, x, plain(dtype)), b = tn__c_converted(r, y, plain(dtype));
  tn__c_put(r, (tn__c_ins){
                   .code = TN__C_ARITH, .op = (uint8_t)op, .dtype = (uint8_t)dtype, .dst = dst, .a = a, .b = b});
  return in_reg(plain(compares ? TN_I32 : dtype), dst);
}
