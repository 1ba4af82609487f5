/* Batches of rows, in an order that follows from the seed and the epoch. */
#include "base/mem.h"
#include "data/array.h"
#include <string.h>

typedef struct column {
  const char *data;
  size_t row;   /* bytes */
  char *staged; /* a batch */
} column;

struct tn_batches {
  tn__object object;
  tn__arena arena;
  column *column;
  int n;
  int64_t rows, batch, next; /* next: first row, in the epoch's order, of the next batch */
  int64_t *order;            /* NULL: as they are */
  uint64_t seed;
};

typedef struct opening {
  int n;
  const tn_array *arrays;
  int64_t batch;
  bool shuffle;
  tn_batches *made;
} opening;

static void end(void *batches) {
  tn_batches *b = batches;
  tn__arena_free(&b->arena);
}

static void do_open(tn_ctx *c, void *arg) {
  opening *k = arg;
  if (k->n < 1 || !k->arrays) tn__fail(c, TN_EINVAL, "no arrays");
  if (k->batch < 1) tn__fail(c, TN_EINVAL, "batches of %lld rows", (long long)k->batch);
  tn_batches *b = k->made = tn__object_new(c, TN__BATCHES, sizeof *b, end);
  tn__arena_init(&b->arena, &c->mem);
  b->n = k->n;
  for (int i = 0; i < k->n; i++) {
    const tn_array *a = &k->arrays[i];
    tn__array_check(c, a, INT64_MAX);
    if (a->rank < 1 || a->shape[0] != k->arrays[0].shape[0])
      tn__fail(c, TN_ESHAPE, "array %d has not as many rows as the first: %lld", i + 1,
               (long long)k->arrays[0].shape[0]);
  }
  b->rows = k->arrays[0].shape[0];
  b->batch = k->batch < b->rows ? k->batch : b->rows;
  b->column = tn__arena_zalloc(&b->arena, (size_t)k->n * sizeof *b->column);
  bool full = false; /* rows of nothing have no order, and a few bytes of a file may claim any number of them */
  for (int i = 0; i < k->n; i++) {
    size_t row = b->rows ? k->arrays[i].bytes / (size_t)b->rows : 0;
    b->column[i] = (column){
        .data = k->arrays[i].data, .row = row, .staged = tn__arena_alloc(&b->arena, row * (size_t)b->batch + 1)};
    full |= row > 0;
  }
  if (k->shuffle && full) b->order = tn__arena_alloc(&b->arena, ((size_t)b->rows + 1) * sizeof *b->order);
}

tn_batches *tn_batches_open(tn_ctx *ctx, int n, const tn_array *arrays, int64_t batch, bool shuffle, uint64_t seed) {
  opening k = {.n = n, .arrays = arrays, .batch = batch, .shuffle = shuffle};
  if (!ctx) return NULL;
  if (!tn__ctx_run(ctx, "tn_batches_open", do_open, &k)) {
    tn__object_discard(k.made);
    return NULL;
  }
  k.made->seed = seed;
  tn_batches_start(k.made, 0, 0);
  return k.made;
}

static bool is_open(const tn_batches *b, const char *api) { return tn__object_use(b, TN__BATCHES, api) != NULL; }

void tn_batches_close(tn_batches *b) {
  tn__object_close_by_caller(b, TN__BATCHES, "tn_batches_close");
}

/* Fisher and Yates, from the end.  Lemire's product maps 64 hashed bits to 0..i; at these sizes its bias is below
 * 2^-32. */
void tn_batches_start(tn_batches *b, uint64_t epoch, int64_t skip) {
  if (!is_open(b, "tn_batches_start")) return;
  uint64_t key = tn__hash_mix(b->seed, epoch);
  for (int64_t i = 0; b->order && i < b->rows; i++) b->order[i] = i;
  for (int64_t i = b->rows - 1; b->order && i > 0; i--) {
    uint64_t bits = tn__hash_mix(key, (uint64_t)i);
    int64_t j = (int64_t)((unsigned __int128)bits * (uint64_t)(i + 1) >> 64), t = b->order[i];
    b->order[i] = b->order[j];
    b->order[j] = t;
  }
  b->next = skip < 0 ? 0 : skip < tn_batches_count(b) ? skip * b->batch : b->rows;
}

int64_t tn_batches_next(tn_batches *b) {
  if (!is_open(b, "tn_batches_next")) return 0;
  int64_t left = b->rows - b->next, n = left < b->batch ? left : b->batch;
  for (int i = 0; i < b->n; i++) {
    const column *k = &b->column[i];
    for (int64_t r = 0; k->row && r < n; r++) {
      int64_t from = b->order ? b->order[b->next + r] : b->next + r;
      memcpy(k->staged + (size_t)r * k->row, k->data + (size_t)from * k->row, k->row);
    }
  }
  b->next += n;
  return n;
}

const void *tn_batches_rows(const tn_batches *b, int i) {
  return is_open(b, "tn_batches_rows") && i >= 0 && i < b->n ? b->column[i].staged : NULL;
}
int64_t tn_batches_count(const tn_batches *b) {
  return is_open(b, "tn_batches_count") && b->batch ? (b->rows + b->batch - 1) / b->batch : 0;
}
