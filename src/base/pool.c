/* Worker pool.
 *
 * A region's slices are shared out evenly, each thread's beside each other, so that a thread finds in its cache what
 * it has had of the same memory in the region before; one that has done its own takes some of others'.  A share's
 * ticket, a 64-bit word, says how many of its slices are taken, and, in the bits above, in which region: what an
 * earlier one has left there says that none is yet, so that nobody has to go through all shares to begin a region.  The
 * number of a region is odd while the next one's fields are being written.  A worker copies the fields, looks whether
 * the region is still the same, and then takes slices by compare-and-swap on tickets: once it has ended all of them are
 * taken, or the ticket is a later region's.  So the caller waits for slices, never for workers: one that sleeps through
 * a region costs nothing. */
#include "base/pool.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum {
  SPIN_NS = 50000,
  TAKEN_BITS = 16, /* of a ticket: it takes years of regions of a microsecond each until numbers run out */
  MOST_SLICES = 1 << (TAKEN_BITS - 1), /* of a region */
  CACHE_LINE = 64
};
#define TAKEN_MASK (((uint64_t)1 << TAKEN_BITS) - 1)

/* A thread's part of each region's slices */
typedef struct share {
  _Atomic uint64_t ticket;
  char apart[CACHE_LINE - sizeof(uint64_t)];
} share;

typedef struct worker {
  struct tn__pool *pool;
  pthread_t id;
  int index;
} worker;

struct tn__pool {
  tn__mem *mem;
  unsigned born; /* after so many forks */
  int threads;   /* the caller included */
  share *share;  /* of each */
  /* The region.  Atomic, since a late worker may read them while the caller writes those of the next. */
  _Atomic(tn__slice_fn) fn;
  _Atomic(void *) arg;
  _Atomic int64_t first;  /* added to the number of a slice */
  _Atomic uint64_t total; /* slices of the region */
  char apart1[CACHE_LINE];
  _Atomic uint64_t region; /* its number */
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
  uint64_t region = atomic_load(&p->region);
  return (region != seen && !(region & 1)) || atomic_load(&p->stop);
}

static bool all_done(struct tn__pool *p, uint64_t total) {
  return atomic_load(&p->done) == total;
}

/* The first slice of a thread's share.  The first thread's, which is the caller's, is empty last. */
static uint64_t share_begins(const struct tn__pool *p, uint64_t total, int thread) {
  uint64_t n = (uint64_t)p->threads;
  return (total * (uint64_t)thread + n - 1) / n;
}

/* Takes a slice of a share of n in this region: *at, from 0 on; false: none is left */
static bool take(share *s, uint64_t region, uint64_t n, uint64_t *at) {
  uint64_t ticket = n ? atomic_load(&s->ticket) : 0;
  while (n && ticket >> TAKEN_BITS <= region) {
    *at = ticket >> TAKEN_BITS == region ? ticket & TAKEN_MASK : 0;
    if (*at == n) return false;
    if (atomic_compare_exchange_weak(&s->ticket, &ticket, region << TAKEN_BITS | (*at + 1))) return true;
  }
  return false;
}

/* Runs slices of the open region until none is left; the number of that region. */
static uint64_t work(struct tn__pool *p, int thread) {
  uint64_t region = atomic_load(&p->region), finished = 0;
  tn__slice_fn fn = atomic_load_explicit(&p->fn, memory_order_acquire);
  void *arg = atomic_load_explicit(&p->arg, memory_order_acquire);
  int64_t first = atomic_load_explicit(&p->first, memory_order_acquire);
  uint64_t total = atomic_load_explicit(&p->total, memory_order_acquire);
  if (region & 1 || atomic_load(&p->region) != region) return region; /* of which region these are nobody knows */
  for (int k = 0, t = thread; k < p->threads; k++, t = t + 1 < p->threads ? t + 1 : 0) {
    uint64_t begin = share_begins(p, total, t), n = share_begins(p, total, t + 1) - begin, at;
    for (; take(&p->share[t], region, n, &at); finished++) fn(arg, first + (int64_t)(begin + at), thread);
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

/* One region of MOST_SLICES at most. */
static void run_region(struct tn__pool *p, tn__slice_fn fn, void *arg, int64_t first, uint64_t total) {
  uint64_t closed = atomic_load(&p->region) + 1; /* the next number, odd: nobody enters */
  atomic_store(&p->region, closed);
  atomic_store_explicit(&p->fn, fn, memory_order_release);
  atomic_store_explicit(&p->arg, arg, memory_order_release);
  atomic_store_explicit(&p->first, first, memory_order_release);
  atomic_store_explicit(&p->total, total, memory_order_release);
  atomic_store(&p->done, 0);
  atomic_store(&p->region, closed + 1);
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
  for (int64_t first = 0; first < slices; first += MOST_SLICES) {
    int64_t rest = slices - first;
    run_region(p, fn, arg, first, rest < MOST_SLICES ? (uint64_t)rest : MOST_SLICES);
  }
}

tn__pool *tn__pool_open(tn__mem *m, int threads) {
  size_t workers = threads > 1 ? (size_t)threads - 1 : 0;
  tn__pool *p = tn__mem_zalloc(m, sizeof *p + workers * sizeof(worker) + (workers + 1) * sizeof(share));
  p->mem = m;
  p->share = (share *)(p->workers + workers);
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
