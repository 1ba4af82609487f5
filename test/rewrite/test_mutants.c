/* Would the tests notice a mistake in a rule table?  Every row is changed in every way that the tables below know, one
 * change at a time; each change must be found out by what test_rows.c demands of a row: that it is one, keeps the type,
 * fires and is true. Changes that leave the row true stand in harmless.rules, where the provers prove that they do; a
 * condition that can be dropped so is to be dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/table.h"
#include "support/ctx.h"
#include "support/rows.h"

enum { ROOM = 600 };

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* On the right side: another sign, another function. */
static const char *const exchanges[][2] = {
    {"(add ", "(sub "},
    {"#add ", "#sub "},
    {"#sub ", "#add "},
    {"(min ", "(max "},
    {"(max ", "(min "},
    {"#min ", "#max "},
    {"#max ", "#min "},
    {"#lo ", "#hi "},
    {"#hi ", "#lo "},
    {"(lt ", "(le "},
    {"(le ", "(lt "},
    {"(eq ", "(ne "},
    {"(ne ", "(eq "},
    {"(and ", "(or "},
    {"(or ", "(and "},
    {"(idiv ", "(mod "},
    {"(mod ", "(idiv "},
    {"#idiv ", "#ceildiv "},
    {"#ceildiv ", "#idiv "},
    {"#mul ", "#add "},
    {"(mul ", "(add "},
    {"(neg ", "(abs "},
    {"(abs ", "(neg "},
    {"#neg ", "#add 0 "},
    {"(not ", "(and 1 "},
    {"(compose p q", "(compose q p"},
    {"(shrinkmul s t", "(shrinkmul t s"},
    {"(symdiff a b", "(symdiff a a"},
    {"(padsum p q", "(padsum p p"},
};

/* In conditions: a bound that admits one value more. */
static const char *const loosenings[][2] = {{"0<=", "-1<="}, {"<", "<="}, {">", ">="}, {"=", "<="}};

typedef struct mutant {
  char text[ROOM];
  char what[ROOM]; /* the change, as it stands in the list of those that do no harm */
} mutant;

typedef struct breeding {
  const char *name, *row, *right, *when; /* the row; its right side; its conditions, or its end */
  void (*found)(struct breeding *, const mutant *);
  tn_ctx *c;
  bool index;
  uint32_t made, survived;
} breeding;

/* The row with n characters at `at` replaced by `by`. */
static void replace(breeding *b, const char *at, size_t n, const char *by, const char *kind) {
  mutant m;
  snprintf(m.text, sizeof m.text, "%.*s%s%s", (int)(at - b->row), b->row, by, at + n);
  snprintf(m.what, sizeof m.what, "%s %.*s -> %s", kind, (int)n, at, by);
  b->found(b, &m);
}

static void exchange(breeding *b) {
  for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
    size_t n = strlen(exchanges[i][0]);
    for (const char *at = b->right; (at = strstr(at, exchanges[i][0])) && at < b->when; at += n)
      replace(b, at, n, exchanges[i][1], "exchange");
  }
}

/* Every number of the right side by its neighbours. */
static void off_by_one(breeding *b) {
  for (const char *at = b->right; at < b->when; at++) {
    if (!strchr(" (", at[-1]) || !(isdigit((unsigned char)*at) || (*at == '-' && isdigit((unsigned char)at[1]))))
      continue;
    char *end, by[32];
    double v = strtod(at, &end);
    for (int d = -1; d < 2; d += 2) {
      snprintf(by, sizeof by, "%.0f", v + d);
      replace(b, at, (size_t)(end - at), by, "number");
    }
    at = end - 1;
  }
}

static const char *behind_term(const char *at) {
  int depth = 0;
  do {
    depth += *at == '(';
    depth -= *at == ')';
    at++;
  } while (*at && (depth > 0 || !strchr(" )", *at)));
  return at;
}

/* The last two operands of every function of the right side in the other order. */
static void swap_operands(breeding *b) {
  static const char *const ordered[] = {"(sub ", "(idiv ", "(mod ", "(lt ",      "(le ",      "(div ",
                                        "#sub ", "#idiv ", "#mod ", "#ceildiv ", "(where p ", "(where (and p q) "};
  for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++)
    for (const char *at = b->right; (at = strstr(at, ordered[i])) && at < b->when; at++) {
      char by[ROOM];
      const char *x = at + strlen(ordered[i]), *end = behind_term(x), *y = end + 1, *last = behind_term(y);
      snprintf(by, sizeof by, "%.*s %.*s", (int)(last - y), y, (int)(end - x), x);
      replace(b, x, (size_t)(last - x), by, "swap");
    }
}

static void weaken_conditions(breeding *b) {
  const char *at = b->when;
  while (*at) {
    at += strspn(at, " ");
    const char *end = *at ? behind_term(at) : at;
    if (!strncmp(at, "mode", 4) || !strncmp(at, "assume", 6)) break;
    /* (fits) is about 64 bits, far beyond the values tried here; that each is needed shows a solver's model
     * (prove/rows.c, width) */
    if (end > at && strncmp(at, "when", 4) && strncmp(at, "(fits)", 6)) {
      replace(b, at, (size_t)(end - at), "", "drop");
      for (size_t i = 0; i < sizeof loosenings / sizeof *loosenings; i++) {
        const char *from = loosenings[i][0], *op = strstr(at, from);
        if (!op || op >= end || strchr("<>!=", op[strlen(from)]) || strchr("<>!=", op[-1])) continue;
        char by[ROOM];
        snprintf(by, sizeof by, "%.*s%s%.*s", (int)(op - at), at, loosenings[i][1], (int)(end - op) - (int)strlen(from),
                 op + strlen(from));
        replace(b, at, (size_t)(end - at), by, "loosen");
      }
    }
    at = end;
  }
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* Conditions without which a row is as true, kept all the same; any other such condition has to go. */
static const struct {
  const char *change, *rows, *why;
} kept[] = {
    {"drop c1<0 -> ", " lt_negative gt_negative ", "there for the measure"},
    {"drop x:float -> ", " mul_minus_one ", "there for the measure: sums of dtype index have factors of -1"},
};

static bool is_kept(const char *row, const char *change) {
  char word[ROOM];
  snprintf(word, sizeof word, " %s ", row);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (!strcmp(kept[i].change, change) && strstr(kept[i].rows, word)) return true;
  return false;
}

/* The statement of a row, behind its name: from the pattern on, white space counted as one. */
static const char *statement(const char *row) {
  for (int words = 0; words < 2; words++) row += strcspn(row, " "), row += strspn(row, " ");
  return row;
}

static void flatten(const char *text, uint32_t len, char *out);

/* A row of harmless.rules, which the provers prove, says the same. */
static bool is_proved(const breeding *b, const char *text) {
  const tn__ruleset *s = tn__rules_get(b->c, "harmless");
  char want[ROOM], row[ROOM];
  flatten(statement(text), (uint32_t)strlen(statement(text)), want);
  for (uint32_t i = 0; i < s->n; i++) {
    flatten(s->rule[i].text, s->rule[i].len, row);
    if (!strcmp(statement(row), want)) return true;
  }
  return false;
}

static void judge(breeding *b, const mutant *m) {
  row_verdict v = row_try(b->c, m->text, strlen(m->text), b->index, true);
  if (b->index && v.sound && v.fired && v.held) { /* and on machine integers and floats, where a class was dropped */
    row_verdict w = row_try(b->c, m->text, strlen(m->text), false, true);
    v.held &= w.sound && w.held;
  }
  tn_clear_error(b->c);
  b->made++;
  if (!v.sound || !v.fired || !v.held) return;
  if (getenv("TENET_SURVIVORS")) print_message("survivor %s\n", m->text); /* to see what might go to harmless.rules */
  bool dropped = !strncmp(m->what, "drop", 4), needless = dropped && !is_kept(b->name, m->what);
  if (!needless && is_proved(b, m->text)) return;
  print_error(needless ? "needless: in %s, %s\n" : "not noticed: in %s, %s\n", b->name, m->what);
  b->survived++;
}

/* The row on one line, without comments. */
static void flatten(const char *text, uint32_t len, char *out) {
  size_t n = 0;
  bool comment = false;
  for (uint32_t i = 0; i < len && n < ROOM / 2; i++) {
    char ch = text[i];
    comment = ch == ';' || (comment && ch != '\n');
    if (comment) continue;
    if (!isspace((unsigned char)ch)) out[n++] = ch;
    else if (n && out[n - 1] != ' ') out[n++] = ' ';
  }
  while (n && out[n - 1] == ' ') n--;
  out[n] = 0;
  /* what the provers need is no part of the statement */
  char *hints = strstr(out, " by ("), *proof = strstr(out, " proof \"");
  if (hints) *hints = 0;
  if (proof) *proof = 0;
}

static void every_mutant(const char *table) {
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  c.mode = TN_MODE_FAST;
  tn__ruleset *s = tn__rules_get(&c, table);
  breeding b = {.c = &c, .index = !strcmp(table, "index"), .found = judge};
  for (uint32_t i = 0; i < s->n; i++) {
    char row[ROOM];
    flatten(s->rule[i].text, s->rule[i].len, row);
    b.name = s->rule[i].name;
    b.row = row;
    b.right = strstr(row, "-> ");
    b.when = strstr(row, " when ");
    if (!b.when) b.when = row + strlen(row);
    exchange(&b);
    off_by_one(&b);
    swap_operands(&b);
    weaken_conditions(&b);
  }
  print_message("%s: %u changes, %u not noticed\n", table, b.made, b.survived);
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
  assert_int_equal(b.survived, 0);
}

static void index_mutants(void **state) { (void)state, every_mutant("index"); }
static void simplify_mutants(void **state) { (void)state, every_mutant("simplify"); }
static void float_mutants(void **state) { (void)state, every_mutant("float"); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(index_mutants), cmocka_unit_test(simplify_mutants),
                                     cmocka_unit_test(float_mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
