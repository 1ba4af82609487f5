/* Programs that Tenet starts: compilers, solvers.  Prefix tn__child_.
 *
 * No shell: input and output travel in anonymous memory files, which, unlike pipes, can neither fill up nor block.  A
 * child has a process group of its own and a time limit; past it, the group is killed.  On a busy machine a child may
 * have more, its patience, until it has had the limit's time of a processor. */
#ifndef TN_BASE_CHILD_H
#define TN_BASE_CHILD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tn__child {
  pid_t pid;
  int out, status, limit_ms; /* status: as waitpid tells it, once it has ended */
  int64_t began_ms;
  int patience;              /* times the limit; set after the start, 0: none */
} tn__child;

typedef enum tn__child_state { TN__CHILD_RUNS, TN__CHILD_ENDED, TN__CHILD_TOO_LONG } tn__child_state;

/* Looks `name` up as a shell would. */
bool tn__child_find(const char *name, char *path, size_t size);
/* Starts argv[0] with `input` on its standard input; false if it does not start.  Then poll until it has ended, and
 * close. */
bool tn__child_start(tn__child *k, const char *const *argv, const char *input, int limit_ms);
tn__child_state tn__child_poll(tn__child *k); /* kills it when its time is over */
tn__child_state tn__child_wait(tn__child *k);
/* What it has printed, standard error included, cut to size; the length. */
size_t tn__child_said(const tn__child *k, char *said, size_t size);
void tn__child_close(tn__child *k);
void tn__child_stop(tn__child *k); /* one that still runs; closes it */
int64_t tn__child_clock_ms(void);
#endif
