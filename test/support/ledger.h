/* The ledger of costs: what each program (support/programs.h) costs on each kind of device (support/cost.h), a line
 * each; the same on every machine, as nothing runs.  test/golden/costs.txt is the one that is committed.  Prefix
 * ledger_. */
#ifndef TEST_SUPPORT_LEDGER_H
#define TEST_SUPPORT_LEDGER_H
#include "support/cost.h"

typedef struct ledger_line {
  char name[64];      /* device, mode and program */
  cost cost;
  char error[160];    /* empty: none */
} ledger_line;

/* random: random graphs, too, which are others where another compiler built the grammar that draws them */
void ledger_make(bool random, void (*take)(void *to, const ledger_line *line), void *to);
void ledger_print(const ledger_line *line, char *out, size_t size); /* NAME|FIGURE ... */
bool ledger_read(const char *text, ledger_line *out);
#endif
