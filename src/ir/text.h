/* Graphs as text, both ways.  Prefix tn__print_, tn__parse_.  parse(print(x)) == x, the same interned node.
 *
 * One node a line, sources before users:   %3 = add f32[64,B] %1 %2
 * index constants stand inline as numbers where they are sources; arguments in braces: {1 0} or {"name" 3}; the op of a
 * reduction, and the axis and the role of a range, go by name: {add 1}, {global 0 output}.  Floats are the shortest
 * decimal that reads back to the same bits, NaNs their bits in hexadecimal.  A size whose expression is endless when
 * written out ends in "...".  The last line is the root.  '#' starts a comment.  The type is redundant: the parser
 * computes it and rejects a text that lies. */
#ifndef TN_IR_TEXT_H
#define TN_IR_TEXT_H
#include "ir/ctx.h"

void tn__print(tn__sb *out, tn_node *root);
tn_node *tn__parse(tn_ctx *c, const char *text); /* throws TN_EFORMAT with line and column */
tn_node *tn__parse_lines(tn_ctx *c, const char *text, tn__map *line); /* so; and node -> the line that first gives it */
/* A scalar expression on one line, C-like, for index expressions in messages and golden tests: "r0*32 + r1" */
void tn__print_expr(tn__sb *out, tn_node *n);
#endif
