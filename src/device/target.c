#include "device/target.h"
#include <math.h>

enum {
  RAMP_STEPS = 32,          /* a tile's begin and end: loads before there is anything to multiply, and stores */
  BLOCK_STEPS = 16,         /* of a block of a split sum, at least, by plain loops */
  TRANSFORMED_LAUNCHES = 4, /* kernels of a convolution by transforms: of both factors, their product, and back */
  SHARED_SUMS = 32,         /* for each unit, of products that all threads compute while one has done a step of all */
  USUAL_LAUNCH = 32768,     /* multiply-adds in the time of a launch, where the device does not say */
  /* Times as long, at least, as a library goes through rows of any length: bf16[144,353,353] was stored and read by
   * cuBLASLt on an H200 in 39 and 44 us, where memory takes 9. */
  ROW_LOSS = 3,
  MOST_PLACES = 4096        /* of an exchange: threads have as many elements as are worth their written text */
};
static const double LEAST_DEAR = 0.5;

/* All of this only chooses among right programs. */

/* a choice: either is right */
static double covered(double size, double by) { return by * ceil(size / by); }

bool tn__target_multiplies(const tn__target *t, int dtype) {
  for (uint32_t i = 0; i < t->ntiles; i++)
    if (t->tiles[i].dtype == dtype) return true;
  return false;
}

/* a choice: either is right */
static double units_of(const tn__target *t) { return t->units > 0 ? t->units : 1; }

/* What so many groups take together, as long as the busiest unit has work. */
/* a choice: either is right */
static double shared_out(const tn__target *t, double work, double groups) {
  return groups > 0 ? work * covered(groups, units_of(t)) / groups : 0;
}

/* a choice: either is right */
static double blocks_of(const tn__target *t, double groups, int64_t steps, int64_t least) {
  return groups > 0 ? fmin((double)(steps / least), floor(units_of(t) / groups)) : 0;
}

/* Part of a sum, as one of so many blocks */
/* a choice: either is right */
static tn__product_size block_of(const tn__product_size *p, double blocks) {
  tn__product_size part = *p;
  part.batch *= blocks;
  part.steps = (int64_t)((double)p->steps / blocks);
  return part;
}

/* a choice: either is right */
double tn__target_plain_work(const tn__target *t, const tn__product_size *p) {
  double at_once = fmax(1, (double)t->access / (double)tn__size_of(p->dtype));
  return p->batch * (double)p->rows * (double)p->cols * (double)p->steps * (1 + (double)t->fetch * (1 + 1 / at_once));
}

/* a choice: either is right */
static double plain_groups(const tn__target *t, const tn__product_size *p) {
  int usual = tn__usual_group(t);
  return covered(p->batch * (double)p->rows * (double)p->cols, usual) / usual;
}

/* a choice: either is right */
double tn__target_plain_time(const tn__target *t, const tn__product_size *p) {
  double groups = plain_groups(t, p), whole = shared_out(t, tn__target_plain_work(t, p), groups),
         blocks = blocks_of(t, groups, p->steps, BLOCK_STEPS);
  if (blocks < 2) return whole;
  tn__product_size part = block_of(p, blocks);
  double split = shared_out(t, tn__target_plain_work(t, p), plain_groups(t, &part)) + tn__target_launch_work(t);
  return fmin(split, whole);
}

/* a choice: either is right */
static double tiles_of(const tn__tile_form *f, const tn__product_size *p) {
  return p->batch * covered((double)p->rows, f->rows) / f->rows * covered((double)p->cols, f->cols) / f->cols;
}

/* a choice: either is right */
double tn__target_tile_work(const tn__target *t, const tn__tile_form *f, const tn__product_size *p) {
  double steps = covered((double)p->steps, f->steps) + RAMP_STEPS,
         dear = f->dear > 0 ? fmax((double)f->dear, LEAST_DEAR) : 1;
  return tiles_of(f, p) * steps * (f->rows * f->cols * dear + (f->rows + f->cols) * (double)t->fetch);
}

/* a choice: either is right */
double tn__target_tile_time(const tn__target *t, const tn__tile_form *f, const tn__product_size *p) {
  double tiles = tiles_of(f, p), whole = shared_out(t, tn__target_tile_work(t, f, p), tiles),
         blocks = blocks_of(t, tiles, p->steps, TN__TILE_TURNS * f->steps);
  if (blocks < 2) return whole;
  tn__product_size part = block_of(p, blocks);
  double split = shared_out(t, tn__target_tile_work(t, f, &part), tiles_of(f, &part)) + tn__target_launch_work(t);
  return fmin(split, whole);
}

/* a choice: either is right */
static bool fits(const tn__target *t, const tn__tile_form *f, const tn__product_size *p) {
  bool whole = p->rows % f->rows == 0 && p->cols % f->cols == 0 && p->steps % f->steps == 0;
  return f->dtype == p->dtype && !f->tf32 && f->dear <= 1 && (f->even ? whole : f->dtype == TN_F32) &&
         tn__target_tile_time(t, f, p) < tn__target_plain_time(t, p);
}

/* a choice: either is right */
bool tn__target_fits(const tn__target *t, const tn__product_size *p) {
  tn__product_size across = *p;
  across.rows = p->cols, across.cols = p->rows;
  for (uint32_t i = 0; i < t->ntiles; i++)
    if (fits(t, &t->tiles[i], p) || fits(t, &t->tiles[i], &across)) return true;
  return false;
}

/* a choice: either is right */
double tn__target_launch_work(const tn__target *t) { return (double)t->launch * (double)t->rate * t->units; }

/* a choice: either is right */
double tn__target_launch_guess(const tn__target *t) {
  return t->launch > 0 ? tn__target_launch_work(t) : USUAL_LAUNCH;
}

/* Half of a unit's registers, or what a thread has of rows, if that is not said; no more than twice that: threads that
 * have more wait longer than others of their unit compute. */
/* a choice: either is right */
int64_t tn__scan_tile(const tn__target *t, size_t size) {
  int64_t threads = 1, own = TN__SCAN_OWN;
  while (2 * threads <= t->group) threads *= 2;
  int64_t held = (int64_t)(t->registers / 2 / size) / threads;
  if (held) own = held < own ? held : held < 2 * own ? own : 2 * own;
  return own * threads;
}

/* Memory's cache gives two sectors that lie side by side in the time of one. */
/* a choice: either is right */
int64_t tn__scan_columns(const tn__target *t, size_t size, int64_t columns) {
  int64_t wide = 2 * t->sector / (int64_t)size;
  return wide < 1 ? 1 : wide < columns ? wide : columns;
}

/* A thread for each key, and a table of words for each of those that run in step */
/* a choice: no is right */
bool tn__tallies_in_step(const tn__target *t) {
  size_t tables = t->subgroup > 0 ? TN__TALLY_KEYS / (size_t)t->subgroup : 0;
  return t->exchanges && (t->adds & sizeof(uint32_t)) && tables && TN__TALLY_KEYS <= t->group &&
         tables * TN__TALLY_KEYS * sizeof(uint32_t) <= t->shared;
}

/* One for each word of a table: so many have enough terms on their way, and a unit has room for several groups. */
/* a choice: no is right */
int tn__tally_threads(const tn__target *t) {
  int threads = TN__TALLY_KEYS / TN__TALLY_PARTS;
  size_t table = (size_t)(threads + 1) * sizeof(uint64_t),
         terms = TN__TALLY_TERMS * (sizeof(uint8_t) + sizeof(uint16_t)); /* keys, and counts up to each */
  if (tn__tallies_in_step(t)) return TN__TALLY_KEYS;
  return threads <= t->group && (size_t)threads * table + terms <= t->shared ? threads : 0;
}

/* a choice: no is right */
bool tn__target_tallies(const tn__target *t, int64_t terms, int64_t keys) {
  int64_t once = tn__tally_threads(t);
  if (!tn__tallies_in_step(t)) once *= TN__TALLY_NEAR;
  return once && terms % once == 0 && terms <= TN__TALLY_TERMS && terms > TN__THREADS_TURNS &&
         keys >= TN__TALLY_PARTS && keys <= TN__TALLY_KEYS && !(keys & (keys - 1));
}

/* Few elements a thread compares with each other in less time. */
/* a choice: no is right */
bool tn__target_exchanges(const tn__target *t, int64_t places, int words) {
  size_t bytes = sizeof(uint32_t);
  if (!t->group || t->subgroup < 1 || !(t->adds & bytes) || words > TN__MOST_EXCHANGED) return false;
  return places > TN__THREADS_TURNS && places <= MOST_PLACES && places % t->subgroup == 0 &&
         (size_t)places * (size_t)words * bytes <= t->shared;
}

/* Tables of counts, and what a key's words are looked up by, stand beside the places. */
/* a choice: no is right */
bool tn__target_ranks(const tn__target *t, int64_t places, int words) {
  if (!tn__tallies_in_step(t) || !tn__target_exchanges(t, places, words)) return false;
  size_t tables = TN__TALLY_KEYS / (size_t)t->subgroup * TN__TALLY_KEYS * sizeof(uint32_t),
         begins = TN__TALLY_KEYS * sizeof(uint64_t), sent = (size_t)places * (size_t)words * sizeof(uint32_t);
  return tn__target_tallies(t, places, TN__TALLY_KEYS) && tables + begins + sent <= t->shared;
}

/* a choice: no is right */
bool tn__target_owns(const tn__target *t) {
  return t->exchanges && t->subgroup > 0 && t->subgroup <= t->group;
}

/* Threads of such a group, which has a unit for itself: more would leave each other too few registers, and of fewer
 * each asks for more updates, which all groups go through. */
enum { OWNERS = 512 };

/* Owners by about so many blocks of whole warps; an odd number of classes: steps that places are often apart in go
 * through all of them. */
static tn__owners owners_by(const tn__target *t, int64_t places, int64_t width, int64_t blocks, int64_t most) {
  int64_t columns = ((width + blocks - 1) / blocks + t->subgroup - 1) / t->subgroup * t->subgroup;
  tn__owners o = {.blocks = (width + columns - 1) / columns, .columns = (int)columns};
  o.abreast = (int)(most / columns); /* threads that have no place ask, too */
  o.classes = t->units / o.blocks;
  if (o.classes > places / 2) o.classes = places / 2;
  if (o.classes > 2 && o.classes % 2 == 0) o.classes--;
  if (o.classes < 1) o.classes = 1;
  return o;
}

/* As few blocks as leave no eighth of the threads that have a column of a place without one */
/* a choice: any is right */
tn__owners tn__owners_of(const tn__target *t, int64_t places, int64_t width) {
  int64_t most = (OWNERS < t->group ? OWNERS : t->group) / t->subgroup * t->subgroup, least = (width + most - 1) / most;
  tn__owners best = owners_by(t, places, width, least, most);
  double busy = 0;
  for (int64_t blocks = least; blocks <= least || blocks <= t->units; blocks++) {
    const tn__owners o = owners_by(t, places, width, blocks, most);
    double rows = fmin((double)o.abreast, ceil((double)places / (double)o.classes));
    double own = (double)o.classes * rows * (double)width;
    if (o.blocks > t->units) own *= (double)t->units / (double)o.blocks;
    if (own > busy * 1.125) busy = own, best = o;
  }
  return best;
}

/* ---- sums of lines ---- */

enum {
  LINE_WAITS = 10,  /* multiply-adds in the time that neighbours ask a term of their line, side by side (107 million in
                     * 39 us on an H200); */
  ASK_STEPS = 4,    /* of a device that does not say what a launch takes: load, compare, choose, add */
  LINE_GROUPS = 4,  /* of a unit, at least, some of which fetch or store while others add */
  LINE_WARPS = 4,   /* of a group, all of which fetch and store */
  LINES_WHOLE = 8,  /* lines, as whose multiples groups' elements begin where memory gives many at once */
  ADD_CYCLES = 64,  /* from one addition of a thread in shared memory to the next, which waits for it; */
  ADD_STEPS = 12,   /* what it issues for that, */
  FETCH_STEPS = 24, /* for a term that is fetched before, */
  STORE_STEPS = 24, /* and for a place, which is cleared, and loaded and stored once */
  LINE_MOVES = 3,   /* f32 that are moved for a term: its key is of i64; */
  LINE_PAD = 16,    /* terms beside those of a line, at most (lower/line_sums.c), */
  LINE_KEY = 4,     /* bytes of a key, at most, */
  LINE_SLACK = 64   /* and of what threads hold beside whole lines, each */
};

/* As many lines as threads run in step, or fewer, where others are to have room beside them: at least so many as lie
 * between each other, where they are few, and two. */
/* a choice: any is right */
static bool share_lines(const tn__target *t, const tn__line_size *s, tn__line_share *out) {
  int64_t step = t->subgroup > 0 ? t->subgroup : TN__USUAL_SUBGROUP, usual = LINE_WARPS * step, room, line;
  *out = (tn__line_share){.threads = (int)(usual < t->group ? usual : t->group)};
  if (out->threads < step || s->places > INT32_MAX / 8 || s->updates > INT32_MAX / 8) return false;
  line = s->places * (int64_t)s->sum + (s->updates + LINE_PAD) * ((int64_t)s->value + LINE_KEY);
  room = ((int64_t)t->shared - LINE_SLACK * out->threads) / line;
  int64_t lines = room / LINE_GROUPS > 1 ? room / LINE_GROUPS : 2;
  if (lines > step) lines = step;
  out->inner = s->inner < step ? s->inner : step;
  if (lines < out->inner) lines = out->inner;
  out->outer = lines / out->inner;
  if (out->outer > LINES_WHOLE) out->outer -= out->outer % LINES_WHOLE;
  if (out->outer > s->outer) out->outer = s->outer;
  out->beside = room / (out->outer * out->inner);
  if (out->beside * out->threads > t->unit_threads) out->beside = t->unit_threads / out->threads;
  return out->beside > 0 && out->outer * out->inner > 1;
}

/* a choice: any is right */
double tn__target_line_asks(const tn__target *t, const tn__line_size *s, int64_t askers) {
  double asks = (double)askers * (double)s->updates * (double)s->outer * (double)s->inner;
  return (t->launch > 0 ? LINE_WAITS : ASK_STEPS) * asks;
}

/* Groups of a unit go along their lines side by side: a thread waits for each of its additions, and for memory before
 * and behind them. */
/* a choice: any is right */
double tn__target_line_sums(const tn__target *t, const tn__line_size *s, const tn__line_share *by) {
  double groups = ceil((double)s->outer / (double)by->outer) * ceil((double)s->inner / (double)by->inner);
  double lines = (double)s->outer * (double)s->inner, terms = lines * (double)s->updates;
  double places = lines * (double)s->places, cycle = fmax(1, (double)t->thread_lanes);
  double wait = ADD_CYCLES * cycle * (double)s->updates + 3 * (double)t->latency * (double)t->rate;
  double waits = ceil(groups / (units_of(t) * (double)by->beside)) * wait * units_of(t);
  double idle = (double)(t->subgroup > 0 ? t->subgroup : TN__USUAL_SUBGROUP) / (double)(by->outer * by->inner);
  double issued = terms * (FETCH_STEPS + ADD_STEPS * fmax(1, idle)) + places * STORE_STEPS;
  double moved = fmax(1, (double)t->balance) * (LINE_MOVES * terms + 2 * places);
  return fmax(waits, issued) + moved;
}

bool tn__target_sums_lines(const tn__target *t, const tn__line_size *s, tn__line_share *out) {
  /* Not on OpenCL: PoCL 3.1 leaves out what threads add behind the last whole eight of a line (300 terms: the last
   * four), but for -cl-opt-disable, or keys that are loaded one by one. */
  if (t->group < 2 || !t->exchanges || !share_lines(t, s, out)) return false;
  return tn__target_line_sums(t, s, out) < tn__target_line_asks(t, s, s->places);
}

/* a choice: either is right */
double tn__target_launch_bytes(const tn__target *t) {
  return t->balance > 0 ? tn__target_launch_work(t) / (double)t->balance * sizeof(float) : 0;
}

/* a choice: either is right */
bool tn__target_is_narrow(const tn__target *t, double lines) {
  if (!t->ntiles) return lines <= (double)t->balance;
  for (uint32_t i = 0; i < t->ntiles; i++) {
    const tn__tile_form *f = &t->tiles[i];
    int least = f->rows < f->cols ? f->rows : f->cols;
    if (f->dtype == TN_F32 && !f->tf32 && covered(lines, least) <= (double)t->balance) return true;
  }
  return false;
}

/* a choice: either is right */
bool tn__target_is_shallow(const tn__target *t, double steps) {
  return t->library <= 1 || steps * ((double)t->library - 1) <= 2 * (double)t->balance;
}

/* a choice: either is right */
bool tn__target_widens_in_vain(const tn__target *t, const tn__product_size *p) {
  double m = (double)p->rows, n = (double)p->cols, k = (double)p->steps;
  return tn__dtype_acc(p->dtype) != p->dtype && (double)t->widening * (m * k + k * n + m * n) > m * n * k;
}

/* a choice: either is right */
int64_t tn__target_row_elements(const tn__target *t, int dtype) {
  int64_t elements = t->row_bytes / (int64_t)tn__size_of(dtype);
  return tn__is_float(dtype) && tn__dtype_acc(dtype) != dtype && elements > 1 ? elements : 1;
}

/* a choice: either is right */
static double multiply_adds(const tn__product_size *p) {
  return p->batch * (double)p->rows * (double)p->cols * (double)p->steps;
}

/* What memory takes for one of the three matrices, in multiply-adds */
/* a choice: either is right */
static double moving(const tn__target *t, const tn__product_size *p, int64_t rows, int64_t cols) {
  double bytes = p->batch * (double)rows * (double)cols * (double)tn__size_of(p->dtype);
  return bytes / sizeof(float) * (double)t->balance;
}

/* a choice: either is right */
bool tn__target_pads_product(const tn__target *t, const tn__product_size *now, const tn__product_size *padded,
                             unsigned odd, unsigned copied) {
  const int64_t size[][2] = {{now->rows, now->steps}, {now->cols, now->steps}, {now->rows, now->cols}},
                longer[][2] = {{padded->rows, padded->steps},
                               {padded->cols, padded->steps},
                               {padded->rows, padded->cols}};
  double memory = 0, better = 0, copies = 0;
  for (int i = 0; i < 3; i++) {
    double of = moving(t, now, size[i][0], size[i][1]), to = moving(t, padded, longer[i][0], longer[i][1]);
    bool differs = size[i][0] != longer[i][0] || size[i][1] != longer[i][1];
    memory += odd >> i & 1 ? ROW_LOSS * of : of;
    better += to;
    if (differs && (copied >> i & 1)) copies += 2 * to + tn__target_launch_work(t);
  }
  return multiply_adds(now) + memory > multiply_adds(padded) / fmax(1, (double)t->row_gain) + better + copies;
}

/* a choice: either is right */
bool tn__target_is_much(const tn__target *t, double work) {
  return work >= TRANSFORMED_LAUNCHES * tn__target_launch_work(t);
}

/* c + k elements are read for c * k multiply-adds: where that is no more than the device does while they come, doing
 * fewer saves nothing.  (Winograd took 0.64 and 0.6 ms on an H200 for 512 x 32 x 26 x 26 with 64 filters of 3 x 3,
 * whose products come to 0.19 and 0.16.) */
/* a choice: either is right */
bool tn__target_is_thin(const tn__target *t, double channels, double count) {
  return channels * count <= (double)t->balance * (channels + count);
}

/* a choice: either is right */
bool tn__target_shares_sums(const tn__target *t, double sums) { return sums <= units_of(t) * SHARED_SUMS; }
