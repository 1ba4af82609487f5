/* Running the provers.  A job is one query, which goes from one solver to the next until one decides it, or one Coq
 * file.  Jobs run side by side, each a program with a limit of processor time, and a hard one of PATIENCE times that by
 * the clock (z3 has one of work, too, so that its verdicts do not depend on the machine). */
#include "base/child.h"
#include "prove/prove.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAID = 1 << 16, PATH_ROOM = 4096, MAX_JOBS = 64, COQ_LIMIT_MS = 240000, VERSION_LIMIT_MS = 10000, PATIENCE = 8 };

static bool start(tn__child *k, const char *const *argv, const char *input, int limit_ms) {
  bool good = tn__child_start(k, argv, input, limit_ms);
  k->patience = PATIENCE;
  return good;
}

typedef enum program { Z3, CVC5, COQC, PROGRAMS } program;
/* The versions are those of Debian 12, with which the verdicts of docs/rules.md were obtained: others may decide less,
 * or otherwise. */
static const struct {
  const char *name, *version, *packages;
} programs[PROGRAMS] = {
    [Z3] = {"z3", "4.8.12", "z3"},
    [CVC5] = {"cvc5", "1.0.3", "cvc5"},
    [COQC] = {"coqc", "8.16.1", "coq libcoq-coquelicot"},
};

/* Which solver is asked, for how long. */
typedef struct attempt {
  program who;
  int limit_ms;
} attempt;
enum { ATTEMPTS = 4 };
static const attempt integers_first[ATTEMPTS] = {{Z3, 3000}, {CVC5, 10000}, {Z3, 40000}, {CVC5, 40000}};
static const attempt floats_first[ATTEMPTS] = {{CVC5, 3000}, {Z3, 10000}, {CVC5, 40000}, {Z3, 60000}};

typedef struct job {
  tn__claim *claim;   /* of a query */
  tn__theory *file;   /* of Coq */
  tn__key key;
  int tried;          /* attempts begun; of Coq: files compiled */
  bool running;
  tn__child child;
} job;

typedef struct runner {
  tn__proofs *p;
  const tn__prove_how *how;
  char path[PROGRAMS][PATH_ROOM];
  tn__key version[PROGRAMS]; /* hash of all that it says of it */
  bool here[PROGRAMS];
  tn__vec(job) jobs;
  tn__key theories; /* hash of those written by hand */
  char *said;
} runner;

/* ---- programs ---- */

/* What stands after "version" in what a program says of itself. */
static void note_version(runner *r, int i, tn__sb *all) {
  const char *at = strstr(r->said, "version ");
  size_t n = at ? strspn(at += strlen("version "), "0123456789.") : 0;
  bool pinned = at && strlen(programs[i].version) == n && !memcmp(programs[i].version, at, n);
  tn__sb_printf(all, "%s%s %.*s", all->n ? ", " : "", programs[i].name, (int)n, at ? at : "");
  if (pinned) return;
  fprintf(stderr, "tenet: %s here is %.*s; the verdicts of docs/rules.md are those of %s\n", programs[i].name, (int)n,
          at ? at : "", programs[i].version);
}

static void find_programs(runner *r) {
  tn__sb all;
  tn__sb_init(&all, r->p->a);
  for (int i = 0; i < PROGRAMS; i++) {
    const char *argv[] = {r->path[i], "--version", NULL};
    tn__child k;
    r->here[i] = tn__child_find(programs[i].name, r->path[i], sizeof r->path[i]) &&
                 tn__child_start(&k, argv, "", VERSION_LIMIT_MS);
    if (!r->here[i]) continue;
    r->here[i] = tn__child_wait(&k) == TN__CHILD_ENDED && k.status == 0;
    size_t n = tn__child_said(&k, r->said, SAID);
    r->version[i] = tn__cache_key(r->said, n, (tn__key){(uint64_t)i + 1, 1});
    tn__child_close(&k);
    if (r->here[i]) note_version(r, i, &all);
  }
  r->p->provers = tn__sb_str(&all);
}

/* Coq's libraries have versions of their own: a compiled one names the contents of all that it was compiled with. */
static void note_libraries(runner *r) {
  const char *argv[] = {r->path[COQC], "-where", NULL};
  char path[PATH_ROOM + 64];
  tn__child k;
  if (!r->here[COQC] || !tn__child_start(&k, argv, "", VERSION_LIMIT_MS)) return;
  tn__child_wait(&k);
  size_t n = tn__child_said(&k, r->said, SAID);
  tn__child_close(&k);
  snprintf(path, sizeof path, "%.*s/user-contrib/Coquelicot/Coquelicot.vo", (int)strcspn(r->said, "\n"), r->said);
  FILE *f = n < PATH_ROOM ? fopen(path, "rb") : NULL;
  while (f && (n = fread(r->said, 1, SAID, f)) > 0) r->version[COQC] = tn__cache_key(r->said, n, r->version[COQC]);
  if (f) fclose(f);
}

/* ---- verdicts on disk ---- */

static const char suffix[] = ".verdict";

static bool recall(runner *r, tn__claim *c, tn__key key) {
  size_t n;
  const char *text = tn__cache_read(r->how->cache, key, suffix, r->p->a, &n);
  char by[16];
  long long ms;
  int head = 0;
  if (!text) return false;
  char *copy = tn__arena_alloc(r->p->a, n + 1);
  memcpy(copy, text, n);
  copy[n] = 0;
  if (sscanf(copy, "%15s %lld\n%n", by, &ms, &head) != 2) return false;
  c->outcome = TO_HOLDS, c->cached = true, c->ms = ms;
  c->by = tn__arena_strdup(r->p->a, by);
  c->witness = copy + head;
  return true;
}

static void keep(runner *r, const tn__claim *c, tn__key key) {
  tn__sb b;
  tn__sb_init(&b, r->p->a);
  tn__sb_printf(&b, "%s %lld\n%s", c->by, (long long)c->ms, c->witness ? c->witness : "");
  tn__cache_write(r->how->cache, key, suffix, tn__sb_str(&b), b.n, r->p->a);
}

/* ---- queries ---- */

static const attempt *attempts_of(const tn__claim *c) {
  return c->tool == TT_SMT_FLOAT ? floats_first : integers_first;
}

static void settle(tn__claim *c, tn__outcome o, const char *by, int64_t ms, const char *witness) {
  c->outcome = o, c->by = by, c->ms += ms, c->witness = witness;
}

/* Starts the next attempt; false if there is none. */
static bool start_query(runner *r, job *j) {
  static const char *const z3_args[] = {"-in", "rlimit=400000000"}, *const cvc5_args[] = {"--lang=smt2", "--fp-exp"};
  while (j->tried < ATTEMPTS) {
    const attempt *a = &attempts_of(j->claim)[j->tried++];
    const char *const *args = a->who == Z3 ? z3_args : cvc5_args, *argv[] = {r->path[a->who], args[0], args[1], NULL};
    if (r->here[a->who] && start(&j->child, argv, j->claim->text, a->limit_ms)) return j->running = true;
  }
  bool none = !r->here[Z3] && !r->here[CVC5];
  settle(j->claim, none ? TO_NO_TOOL : TO_UNKNOWN, "-", 0,
         none ? "neither z3 nor cvc5 is installed" : "no solver decided it in its time");
  return false;
}

/* Reads what a solver said, all of it: one verdict, first, and then a model, or that after unsat there is none. */
static bool read_verdict(const char *said, bool *sat) {
  static const char *const none[] = {"model is not available", "Cannot get value unless"};
  if (!strncmp(said, "unsat\n", 6)) {
    const char *rest = said + 6, *end = strchr(rest, '\n');
    *sat = false;
    if (!*rest) return true;
    if (strncmp(rest, "(error ", 7) || (end && end[1])) return false;
    return strstr(rest, none[0]) || strstr(rest, none[1]);
  }
  *sat = true;
  return !strncmp(said, "sat\n", 4) && !strstr(said, "(error");
}

/* True if the job is done. */
static bool finish_query(runner *r, job *j, bool in_time) {
  tn__claim *c = j->claim;
  const char *by = programs[attempts_of(c)[j->tried - 1].who].name;
  size_t n = tn__child_said(&j->child, r->said, SAID);
  int64_t ms = tn__child_clock_ms() - j->child.began_ms;
  tn__child_close(&j->child);
  bool sat;
  if (!in_time || !WIFEXITED(j->child.status) || !read_verdict(r->said, &sat)) {
    c->ms += ms;
    return false;
  }
  if (sat && n) r->said[n - 1] = 0; /* the last line's end */
  settle(c, sat == c->sat ? TO_HOLDS : TO_FAILS, by, ms, sat ? tn__arena_strdup(r->p->a, r->said + 4) : "");
  if (c->outcome == TO_HOLDS) keep(r, c, j->key);
  return true;
}

/* ---- Coq ---- */

static bool write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  bool ok = fputs(text, f) >= 0;
  return fclose(f) == 0 && ok;
}

static bool start_coq(runner *r, tn__child *k, const char *name, const char *text) {
  char path[PATH_ROOM];
  snprintf(path, sizeof path, "%s/%s.v", r->how->dir, name);
  const char *argv[] = {r->path[COQC], "-q", "-w", "none", "-R", r->how->dir, "Tenet", path, NULL};
  return write_file(path, text) && start(k, argv, "", COQ_LIMIT_MS);
}

/* The two files of a theory: its theorems with their proofs, and their statements once more, without. */
enum { PROOFS, STATEMENTS };

static const char *text_of(runner *r, const job *j) {
  return j->tried == PROOFS ? tn__prove_file_text(r->p, j->file) : tn__prove_stated_text(r->p, j->file);
}

static bool start_file(runner *r, job *j) {
  tn__sb name;
  tn__sb_init(&name, r->p->a);
  tn__sb_printf(&name, j->tried == PROOFS ? "%s" : "%s_stated", j->file->name);
  return j->running = start_coq(r, &j->child, tn__sb_str(&name), text_of(r, j));
}

static int line_of(const char *text, const char *at) {
  int line = 1;
  for (; text < at; text++) line += *text == '\n';
  return line;
}

static tn__claim *claim_at(runner *r, const job *j, int line) {
  const char *text = text_of(r, j);
  tn__claim *last = NULL;
  for (uint32_t i = 0; i < r->p->claims.n; i++) {
    tn__claim *c = &r->p->claims.v[i];
    if (c->file != j->file) continue;
    tn__sb head;
    tn__sb_init(&head, r->p->a);
    tn__sb_printf(&head, "%s %s :", j->tried == PROOFS ? "Theorem" : "Definition", c->name);
    const char *at = strstr(text, tn__sb_str(&head));
    if (at && line_of(text, at) <= line) last = c;
  }
  return last;
}

static uint32_t claims_of(runner *r, const tn__theory *t) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->p->claims.n; i++) n += r->p->claims.v[i].file == t;
  return n;
}

static void give_up_coq(runner *r, const tn__theory *t, tn__outcome o, const char *why) {
  for (uint32_t i = 0; i < r->p->claims.n; i++)
    if (r->p->claims.v[i].file == t) settle(&r->p->claims.v[i], o, "-", 0, why);
}

/* Coq does not accept a file: one claim is to blame, if its line tells which, and nothing is known of the others. */
static void blame(runner *r, const job *j, int64_t ms) {
  const char *error = strstr(r->said, "\nError"), *where = strstr(r->said, "line ");
  const tn__claim *failed = where ? claim_at(r, j, atoi(where + 5)) : NULL;
  error = tn__arena_strdup(r->p->a, error ? error : r->said);
  for (uint32_t i = 0; i < r->p->claims.n; i++) {
    tn__claim *c = &r->p->claims.v[i];
    if (c->file != j->file) continue;
    if (c == failed || !failed) settle(c, failed ? TO_FAILS : TO_UNKNOWN, "coq", ms, error);
    else settle(c, TO_UNKNOWN, "coq", ms, "another theorem of its file fails");
  }
}

/* Coq has accepted the statements: what do they stand on? */
static void read_assumptions(runner *r, const job *j, int64_t ms) {
  const char *fault, *used = tn__prove_assumptions(r->p->a, r->said, &fault);
  for (uint32_t i = 0; i < r->p->claims.n; i++) {
    tn__claim *c = &r->p->claims.v[i];
    if (c->file != j->file) continue;
    settle(c, fault ? TO_FAILS : TO_HOLDS, "coq", ms, fault ? fault : used);
    if (!fault) keep(r, c, tn__cache_key(c->name, strlen(c->name), j->key));
  }
}

/* True if the job is done. */
static bool finish_coq(runner *r, job *j, bool in_time) {
  int64_t ms = (tn__child_clock_ms() - j->child.began_ms) / claims_of(r, j->file);
  bool ok = in_time && j->child.status == 0;
  tn__child_said(&j->child, r->said, SAID);
  tn__child_close(&j->child);
  if (!in_time) give_up_coq(r, j->file, TO_UNKNOWN, "coqc was out of time");
  else if (!ok) blame(r, j, ms);
  else if (j->tried == STATEMENTS) read_assumptions(r, j, ms);
  else {
    j->tried = STATEMENTS;
    if (start_file(r, j)) return false;
    give_up_coq(r, j->file, TO_UNKNOWN, "coqc does not start");
  }
  return true;
}

/* The theories that files need, one after the other; what is wrong, or NULL. */
static const char *compile_theories(runner *r) {
  for (uint32_t i = 0; i < r->p->theories.n; i++) {
    tn__theory *t = r->p->theories.v[i];
    tn__child k;
    if (t->generated) continue;
    if (!start_coq(r, &k, t->name, t->header)) return "the theories cannot be written or coqc does not start";
    bool ok = tn__child_wait(&k) == TN__CHILD_ENDED && k.status == 0;
    tn__child_said(&k, r->said, SAID);
    tn__child_close(&k);
    if (!ok) return tn__arena_strdup(r->p->a, r->said);
  }
  return NULL;
}

/* ---- all jobs ---- */

static void add_query(runner *r, tn__claim *c) {
  /* either may have decided it */
  tn__key key = tn__cache_key(&r->version[CVC5], sizeof r->version[CVC5], r->version[Z3]);
  key = tn__cache_key(c->text, strlen(c->text), tn__cache_key(c->sat ? "s" : "u", 1, key));
  if (!recall(r, c, key)) tn__vec_push(r->p->a, &r->jobs, ((job){.claim = c, .key = key}));
}

static void add_file(runner *r, tn__theory *t) {
  const char *text = tn__prove_file_text(r->p, t), *stated = tn__prove_stated_text(r->p, t);
  bool all = true, any = false;
  tn__key key = tn__cache_key(stated, strlen(stated), tn__cache_key(text, strlen(text), r->theories));
  for (uint32_t i = 0; i < r->p->claims.n; i++) {
    tn__claim *c = &r->p->claims.v[i];
    if (c->file != t) continue;
    any = true;
    all = all && recall(r, c, tn__cache_key(c->name, strlen(c->name), key));
  }
  if (any && !all)
    tn__vec_push(r->p->a, &r->jobs, ((job){.file = t, .key = key, .tried = t->theorems.n ? PROOFS : STATEMENTS}));
}

static void add_files(runner *r) {
  uint32_t before = r->jobs.n;
  r->theories = r->version[COQC];
  for (uint32_t i = 0; i < r->p->theories.n; i++) {
    const tn__theory *t = r->p->theories.v[i];
    if (!t->generated) r->theories = tn__cache_key(t->header, strlen(t->header), r->theories);
  }
  for (uint32_t i = 0; i < r->p->theories.n; i++)
    if (r->p->theories.v[i]->generated) add_file(r, r->p->theories.v[i]);
  if (r->jobs.n == before) return;
  const char *wrong = r->here[COQC] ? compile_theories(r) : "coqc is not installed";
  if (!wrong) return;
  while (r->jobs.n > before)
    give_up_coq(r, r->jobs.v[--r->jobs.n].file, r->here[COQC] ? TO_UNKNOWN : TO_NO_TOOL, wrong);
}

static bool start_job(runner *r, job *j) {
  if (j->claim) return start_query(r, j);
  if (!start_file(r, j)) give_up_coq(r, j->file, TO_UNKNOWN, "coqc does not start");
  return j->running;
}

/* True if j still runs. */
static bool tend(runner *r, job *j) {
  tn__child_state s = tn__child_poll(&j->child);
  if (s == TN__CHILD_RUNS) return true;
  if (j->file) return !finish_coq(r, j, s == TN__CHILD_ENDED);
  return !finish_query(r, j, s == TN__CHILD_ENDED) && start_query(r, j);
}

static void run_jobs(runner *r) {
  job *slot[MAX_JOBS] = {0};
  int slots = r->how->jobs < 1 ? 1 : r->how->jobs > MAX_JOBS ? MAX_JOBS : r->how->jobs;
  uint32_t next = 0;
  struct timespec nap = {.tv_nsec = 500000};
  for (bool busy = true; busy;) {
    busy = false;
    for (int i = 0; i < slots; i++) {
      if (slot[i] && !tend(r, slot[i])) slot[i] = NULL;
      while (!slot[i] && next < r->jobs.n) {
        job *j = &r->jobs.v[next++];
        if (start_job(r, j)) slot[i] = j;
      }
      busy |= slot[i] != NULL;
    }
    if (busy) nanosleep(&nap, NULL);
  }
}

void tn__prove_run(tn__proofs *p, const tn__prove_how *how) {
  runner *r = tn__arena_zalloc(p->a, sizeof *r);
  r->p = p, r->how = how;
  r->said = tn__arena_alloc(p->a, SAID);
  find_programs(r);
  note_libraries(r);
  add_files(r); /* first: they are the longest */
  for (uint32_t i = 0; i < p->claims.n; i++) {
    tn__claim *c = &p->claims.v[i];
    if ((c->tool == TT_SMT || c->tool == TT_SMT_FLOAT) && c->outcome == TO_NONE) add_query(r, c);
    if (c->decide) c->witness = c->decide(p->c, c->of), c->outcome = TO_HOLDS;
  }
  run_jobs(r);
  for (int i = 0; i < PROGRAMS; i++)
    if (!r->here[i])
      fprintf(stderr, "tenet: %s is not installed; on Debian: apt-get install %s, or make deps-prove\n",
              programs[i].name, programs[i].packages);
}
