/* Worker pool.
 *
 * One 64-bit word, the ticket, says what there is to do: its upper half is the number of the region (odd while the next
 * region's fields are being written), its lower half the next slice.  A worker copies the region's fields and then
 * takes a slice by compare-and-swap on the ticket; if the region has changed meanwhile, the swap fails and the copy is
 * dropped.  So the caller waits for slices, never for workers: one that sleeps through a region costs nothing. */
#include "base/pool.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 50000, REGION_SHIFT = 32, CACHE_LINE = 64 };
#define SLICE_MASK ((uint64_t)UINT32_MAX)
#define REGION_STEP ((uint64_t)1 << REGION_SHIFT)

typedef struct worker {
  struct tn__pool *pool;
  pthread_t id;
  int index;
} worker;

struct tn__pool {
  tn__mem *mem;
  unsigned born; /* after so many forks */
  int threads;   /* the caller included */
  /* The region.  Atomic, since a late worker may read them while the caller writes those of the next. */
  _Atomic(tn__slice_fn) fn;
  _Atomic(void *) arg;
  _Atomic int64_t first;  /* added to the slice number of the ticket */
  _Atomic uint64_t total; /* slices of the region */
  char apart1[CACHE_LINE];
  _Atomic uint64_t ticket;
  char apart2[CACHE_LINE];
  _Atomic uint64_t done; /* slices finished */
  char apart3[CACHE_LINE];
  /* Sleeping.  Changed under the lock, read without it. */
  _Atomic int asleep;  /* workers */
  _Atomic int waiting; /* the caller */
  _Atomic int stop;
  pthread_mutex_t lock;
  pthread_cond_t wake, finished;
  worker workers[];
};

/* A child of a fork has none of the threads, and who holds the lock there is anyone's guess: it touches neither. */
static _Atomic unsigned forks;
static void count_fork(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }
static bool is_parents(const struct tn__pool *p) {
  return atomic_load_explicit(&forks, memory_order_relaxed) != p->born;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins until ready(p, x), for SPIN_NS at most; true if it was. */
static bool spin(struct tn__pool *p, bool (*ready)(struct tn__pool *p, uint64_t x), uint64_t x) {
  int64_t start = 0;
  for (int i = 0;; i++) {
    if (ready(p, x)) return true;
    relax();
    if (i % 32 != 31) continue;
    int64_t now = now_ns();
    if (!start) start = now;
    if (now - start > SPIN_NS) return false;
  }
}

/* Is there anything but the region `seen`? */
static bool region_changed(struct tn__pool *p, uint64_t seen) {
  uint64_t region = atomic_load(&p->ticket) >> REGION_SHIFT;
  return (region != seen && !(region & 1)) || atomic_load(&p->stop);
}

static bool all_done(struct tn__pool *p, uint64_t total) {
  return atomic_load(&p->done) == total;
}

/* Runs slices of the open region until none is left; the number of that region. */
static uint64_t work(struct tn__pool *p, int thread) {
  uint64_t ticket = atomic_load(&p->ticket), region = ticket >> REGION_SHIFT, finished = 0;
  tn__slice_fn fn = atomic_load_explicit(&p->fn, memory_order_acquire);
  void *arg = atomic_load_explicit(&p->arg, memory_order_acquire);
  int64_t first = atomic_load_explicit(&p->first, memory_order_acquire);
  uint64_t total = atomic_load_explicit(&p->total, memory_order_acquire);
  while (ticket >> REGION_SHIFT == region && !(region & 1) && (ticket & SLICE_MASK) < total) {
    if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket + 1)) continue;
    fn(arg, first + (int64_t)(ticket & SLICE_MASK), thread);
    finished++;
    ticket = atomic_load(&p->ticket);
  }
  /* While slices taken here are not yet counted, the region cannot end, so they are counted for the right one. */
  if (finished && atomic_fetch_add(&p->done, finished) + finished == total && atomic_load(&p->waiting)) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
  }
  return region;
}

static void sleep_until_changed(struct tn__pool *p, uint64_t seen) {
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->asleep, 1);
  while (!region_changed(p, seen)) pthread_cond_wait(&p->wake, &p->lock);
  atomic_fetch_sub(&p->asleep, 1);
  pthread_mutex_unlock(&p->lock);
}

static void *serve(void *arg) {
  worker *w = arg;
  struct tn__pool *p = w->pool;
  uint64_t seen = 0;
  for (;;) {
    if (!spin(p, region_changed, seen)) sleep_until_changed(p, seen);
    if (atomic_load(&p->stop)) return NULL;
    seen = work(p, w->index);
  }
}

/* One region of fewer than 2^32 slices. */
static void run_region(struct tn__pool *p, tn__slice_fn fn, void *arg, int64_t first, uint64_t total) {
  uint64_t closed = (atomic_load(&p->ticket) | SLICE_MASK) + 1; /* the next number, odd: nobody enters */
  atomic_store(&p->ticket, closed);
  atomic_store_explicit(&p->fn, fn, memory_order_release);
  atomic_store_explicit(&p->arg, arg, memory_order_release);
  atomic_store_explicit(&p->first, first, memory_order_release);
  atomic_store_explicit(&p->total, total, memory_order_release);
  atomic_store(&p->done, 0);
  atomic_store(&p->ticket, closed + REGION_STEP);
  if (atomic_load(&p->asleep)) {
    pthread_mutex_lock(&p->lock);
    if (total > 2)
      pthread_cond_broadcast(&p->wake);
    else
      pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
  }
  work(p, 0);
  if (spin(p, all_done, total)) return;
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->waiting, 1);
  while (!all_done(p, total)) pthread_cond_wait(&p->finished, &p->lock);
  atomic_store(&p->waiting, 0);
  pthread_mutex_unlock(&p->lock);
}

void tn__pool_run(tn__pool *p, tn__slice_fn fn, void *arg, int64_t slices) {
  if (p->threads == 1 || slices <= 1 || is_parents(p)) {
    for (int64_t s = 0; s < slices; s++) fn(arg, s, 0);
    return;
  }
  for (int64_t first = 0; first < slices; first += UINT32_MAX) {
    int64_t rest = slices - first;
    run_region(p, fn, arg, first, rest < UINT32_MAX ? (uint64_t)rest : UINT32_MAX);
  }
}

tn__pool *tn__pool_open(tn__mem *m, int threads) {
  size_t extra = threads > 1 ? (size_t)(threads - 1) * sizeof(worker) : 0;
  tn__pool *p = tn__mem_zalloc(m, sizeof *p + extra);
  p->mem = m;
  static pthread_once_t watching = PTHREAD_ONCE_INIT;
  pthread_once(&watching, watch_forks);
  p->born = atomic_load(&forks);
  p->threads = 1;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->finished, NULL);
  /* Signals are the host program's: workers take none. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 1; i < threads; i++) {
    worker *w = &p->workers[i - 1];
    *w = (worker){.pool = p, .index = i};
    if (pthread_create(&w->id, NULL, serve, w) != 0) break; /* the pool then has fewer */
    p->threads = i + 1;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return p;
}

static void join_all(tn__pool *p) {
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->stop, 1);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  for (int i = 1; i < p->threads; i++) pthread_join(p->workers[i - 1].id, NULL);
  pthread_cond_destroy(&p->finished);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->lock);
}

void tn__pool_close(tn__pool *p) {
  if (!p) return;
  if (!is_parents(p)) join_all(p);
  tn__mem_free(p->mem, p);
}

int tn__pool_threads(const tn__pool *p) {
  return p->threads;
}

int tn__pool_cores(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? n : 1;
}
