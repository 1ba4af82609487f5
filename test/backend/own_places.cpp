/* The helper by which CUDA's kernels add rows by the owners of their places (backend/cuda/turns_cuda.inc), run by
 * threads of the processor that stand for those of a group, against one addition after the other, bit for bit.
 * Readers of texts take the call for its meaning and never see what it does. */
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

/* ---- what the text asks of CUDA ---- */

enum { WARP = 32, MOST_WARPS = 16 };
struct index_of_thread {
  int x;
};
static thread_local index_of_thread threadIdx;
static std::barrier<> *group, *warp[MOST_WARPS];
static std::atomic<bool> all_say;
static unsigned said[MOST_WARPS][WARP];

static void __syncthreads() { group->arrive_and_wait(); }

static bool __syncthreads_and(bool x) {
  __syncthreads();
  if (threadIdx.x == 0) all_say = true;
  __syncthreads();
  if (!x) all_say = false;
  __syncthreads();
  bool all = all_say;
  __syncthreads();
  return all;
}

/* What the lanes of the thread's warp say */
static void tell(unsigned own, unsigned *out) {
  int w = threadIdx.x / WARP;
  said[w][threadIdx.x % WARP] = own;
  warp[w]->arrive_and_wait();
  memcpy(out, said[w], sizeof said[w]);
  warp[w]->arrive_and_wait();
}

static unsigned __ballot_sync(unsigned, bool x) {
  unsigned lane[WARP], bits = 0;
  tell(x, lane);
  for (int i = 0; i < WARP; i++) bits |= lane[i] << i;
  return bits;
}

static int __shfl_up_sync(unsigned, int v, int by) {
  unsigned lane[WARP];
  int own = threadIdx.x % WARP;
  tell((unsigned)v, lane);
  return (int)lane[own < by ? own : own - by];
}

static unsigned __funnelshift_r(unsigned low, unsigned high, int n) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31));
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
static void atomicOr(unsigned *p, unsigned v) { __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }

#define TN_FN static inline
#define __shared__ static
#include "backend/cuda/turns_cuda.inc"

/* ---- cases ---- */

enum kind { OVER_ZEROS, QUOTIENTS, OF_A_CLASS, CONSTANTS, BEGUN };
enum way { ANYWHERE, ONE, OUTSIDE_TOO, THREE, IN_TURN, HALF_TO_ONE, WAYS };
static int cases, bad;

static int64_t place_of(way w, int64_t i, int64_t places, std::mt19937 &draw) {
  int64_t any = (int64_t)(draw() % (unsigned)places);
  switch (w) {
  case ONE: return places / 2;
  case OUTSIDE_TOO: return (int64_t)(draw() % (unsigned)(places + 7)) - 3;
  case THREE: return any % 3 * (places / 3);
  case IN_TURN: return i % places;
  case HALF_TO_ONE: return draw() % 2 ? places / 2 : any;
  default: return any;
  }
}

/* A group of THREADS, COLUMNS for each of the rows that go abreast, the last three of which have no column, owns one
 * class of places, of which PLACES are its own. */
template <kind KIND, typename T, int PLACES, int TURNS, int THREADS, int COLUMNS> struct rows {
  static constexpr int WIDTH = COLUMNS - 3, CLASSES = KIND == OF_A_CLASS ? 3 : 1, OWN = CLASSES / 2;
  static constexpr int64_t ALL = (int64_t)PLACES * CLASSES;
  std::vector<int64_t> key = std::vector<int64_t>(TURNS);
  std::vector<T> base, update, divisor, got;

  /* Of a class the last place may be none, as where classes have not all as many. */
  static bool is_there(int64_t own) { return KIND != OF_A_CLASS || PLACES < 3 || own + 1 < PLACES; }
  bool is_own(int64_t k) const { return k >= 0 && k < ALL && k % CLASSES == OWN && is_there(k / CLASSES); }
  static int64_t own_place(int64_t i) { return i * CLASSES + OWN; }
  static size_t cell(int64_t row, int column) { return (size_t)row * WIDTH + (size_t)column; }

  rows(way w, unsigned seed) : base((size_t)ALL * WIDTH), update((size_t)TURNS * WIDTH), divisor(update), got(base) {
    std::mt19937 draw(seed);
    for (T &x : base) x = (T)(draw() % 100000) / 333 - 100;
    for (T &x : update) x = (T)(draw() % 100000) / 777 - 50;
    for (T &x : divisor) x = (T)(draw() % 100000) / 999 + 1;
    for (int64_t i = 0; i < TURNS; i++) key[(size_t)i] = place_of(w, i, ALL, draw);
    if (KIND == BEGUN) got = base; /* what places begin with stands there */
    else got.assign(base.size(), -77); /* what no owner has stays */
  }

  std::vector<T> wanted() const {
    std::vector<T> sum = got;
    for (int p = 0; p < PLACES; p++)
      for (int c = 0; c < WIDTH && is_there(p); c++)
        sum[cell(own_place(p), c)] = KIND == OVER_ZEROS ? 0 : base[cell(own_place(p), c)];
    for (int i = 0; i < TURNS; i++)
      for (int c = 0; c < WIDTH && is_own(key[(size_t)i]); c++)
        sum[cell(key[(size_t)i], c)] += KIND == CONSTANTS   ? (T)1.25
                                        : KIND == QUOTIENTS ? update[cell(i, c)] / divisor[cell(i, c)]
                                                            : update[cell(i, c)];
    return sum;
  }

  void thread(int number) {
    threadIdx.x = number;
    auto given = [&](const std::vector<T> &x, int i, int t) { return t < WIDTH ? x[cell(i, t)] : (T)0; };
    auto begin = [&](int i, int t) {
      size_t at = cell(own_place(i), t);
      T there = KIND == OVER_ZEROS || KIND == BEGUN || t >= WIDTH ? (T)0 : base[at];
      return tn_turn<T, int>{is_there(i), t < WIDTH, (int)at, there};
    };
    auto of = [&](int i, int t, T x) {
      int64_t k = key[(size_t)i], in = k < 0 ? 0 : k < ALL ? k : ALL - 1;
      return tn_turn<T, int>{is_own(k), t < WIDTH, (int)cell(in / CLASSES * CLASSES + OWN, t), x};
    };
    auto none = [&](int, int) { return tn_row<>{}; };
    auto one = [&](int i, int t) { return tn_row<T>{given(update, i, t)}; };
    auto two = [&](int i, int t) { return tn_row<T, T>{given(update, i, t), {given(divisor, i, t)}}; };
    auto quotient = [&](int i, int t, T x, T y) { return of(i, t, x / y); };
    auto constant = [&](int i, int t) { return of(i, t, (T)1.25); };
    if constexpr (KIND == CONSTANTS)
      tn_own_places<PLACES, TURNS, THREADS, COLUMNS, true>(got.data(), begin, none, constant);
    else if constexpr (KIND == QUOTIENTS)
      tn_own_places<PLACES, TURNS, THREADS, COLUMNS, true>(got.data(), begin, two, quotient);
    else tn_own_places<PLACES, TURNS, THREADS, COLUMNS, KIND != BEGUN>(got.data(), begin, one, of);
  }

  void run() {
    std::vector<std::thread> threads;
    std::barrier<> all(THREADS);
    group = &all;
    for (int w = 0; w < THREADS / WARP; w++) warp[w] = new std::barrier<>(WARP);
    for (int t = 0; t < THREADS; t++) threads.emplace_back([this, t] { thread(t); });
    for (std::thread &t : threads) t.join();
    for (int w = 0; w < THREADS / WARP; w++) delete warp[w];
  }
};

template <kind KIND, typename T, int PLACES, int TURNS, int THREADS, int COLUMNS> static void compare(way w) {
  rows<KIND, T, PLACES, TURNS, THREADS, COLUMNS> r(w, (unsigned)(w * 7 + PLACES + TURNS));
  std::vector<T> wanted = r.wanted();
  r.run();
  cases++;
  if (!memcmp(r.got.data(), wanted.data(), wanted.size() * sizeof(T))) return;
  bad++;
  printf("wrong: %d places, %d updates, %d threads, %d columns, kind %d, way %d, %zu bytes\n", PLACES, TURNS, THREADS,
         COLUMNS, KIND, w, sizeof(T));
}

template <int PLACES, int TURNS, int THREADS, int COLUMNS = THREADS> static void all_ways() {
  for (int w = 0; w < WAYS; w++) {
    compare<OVER_ZEROS, float, PLACES, TURNS, THREADS, COLUMNS>((way)w);
    compare<QUOTIENTS, float, PLACES, TURNS, THREADS, COLUMNS>((way)w);
    compare<OF_A_CLASS, float, PLACES, TURNS, THREADS, COLUMNS>((way)w);
    compare<CONSTANTS, float, PLACES, TURNS, THREADS, COLUMNS>((way)w);
    compare<BEGUN, float, PLACES, TURNS, THREADS, COLUMNS>((way)w);
    compare<QUOTIENTS, double, PLACES, TURNS, THREADS, COLUMNS>((way)w);
  }
}

int main() {
  all_ways<16, 32, 32>(); /* places and updates as there are bits in a word, one less, one more */
  all_ways<32, 32, 128>();
  all_ways<33, 31, 32>();
  all_ways<2, 1, 32>();
  all_ways<1, 33, 64>();
  all_ways<5, 24, 32>(); /* as many updates as are on their way, and more */
  all_ways<40, 25, 32>();
  all_ways<8192, 60, 32>(); /* the most places of which is known which updates go there, */
  all_ways<8193, 60, 32>(); /* and beyond */
  all_ways<64, 600, 32>();  /* several rounds of questions */
  all_ways<33, 1500, 32>();
  all_ways<20, 300, 64>();
  all_ways<40, 300, 128, 32>(); /* rows abreast: whole rounds of places, and not; */
  all_ways<37, 90, 96, 32>();
  all_ways<8195, 50, 64, 32>();
  all_ways<2, 70, 128, 32>(); /* fewer places than rows; */
  all_ways<20, 5000, 288, 96>(); /* so many threads that each asks less at once */
  all_ways<40, 5000, 512>(); /* as many threads as there are in one group, of one row and of several */
  all_ways<37, 700, 512, 32>();
  printf("%d cases, %d wrong\n", cases, bad);
  return bad != 0 || cases != 19 * 6 * WAYS;
}
