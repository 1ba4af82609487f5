/* Text of graphs, schedules and kernels, as tn_explain prints it and users write it.  Prefix tn__section. */
#ifndef TN_RUN_SECTIONS_H
#define TN_RUN_SECTIONS_H
#include "ir/ctx.h"

typedef enum tn__stage {
  TN__STAGE_GRAPH,
  TN__STAGE_SCHEDULE,
  TN__STAGE_KERNEL,
  TN__STAGE_PART,
  TN__STAGE_PROGRAM, /* a kernel's instructions, in order */
  TN__STAGES
} tn__stage;
extern const char *const tn__stage_names[TN__STAGES];

/* One graph of the text: it begins with %1.  The generated source, which comes last, is not read. */
typedef struct tn__section {
  tn__stage stage;
  int line; /* its last */
  tn_node *root;
  tn__map line_of; /* node -> the line that first gives it */
} tn__section;
typedef tn__vec(tn__section) tn__sections;

enum { TN__MOST_BUFFERS = 1000 };

/* At least one.  Throws TN_EFORMAT with the line of what is wrong. */
tn__sections tn__sections_read(tn_ctx *c, const char *text);
/* That of the node; of what is none of the text's, the section's last. */
int tn__section_line(const tn__section *s, const tn_node *n);
/* Throws unless body, the section's or of a call in it, is one as the schedule leaves it: buffers 0..nbuf-1, loops that
 * are not shared out yet. */
void tn__section_body(tn_ctx *c, const tn__section *s, tn_node *body, int64_t nbuf);
/* So for a linear program as users write it: see docs/text-format.md. */
void tn__section_program(tn_ctx *c, const tn__section *s, tn_node *program, int64_t nbuf);
#endif
