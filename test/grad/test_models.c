/* Whole models in f64: objective and gradient against loops in C that follow the definition, and their central
 * differences.  A Gaussian mixture's likelihood, the residuals of bundle adjustment, an LSTM's loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 4 };

typedef struct model {
  int nparts;
  struct part {
    tn_dim shape[3];
    int rank;
  } part[MOST_PARTS]; /* the parameters, one behind the other */
  double (*loops)(const double *p);
  tn_tensor *(*graph)(tn_ctx *c, tn_tensor *const *p);
} model;

static int64_t count(const struct part *p) {
  int64_t n = 1;
  for (int i = 0; i < p->rank; i++) n *= p->shape[i];
  return n;
}

/* Numbers in -1 .. 1, the same every time. */
static double drawn(uint64_t i) {
  uint64_t v = (i + 1) * 0x9e3779b97f4a7c15u;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  return (double)((v ^ v >> 27) >> 11) * 0x1p-52 - 1;
}

static tn_tensor *given(tn_ctx *c, uint64_t first, int rank, const tn_dim *shape) {
  int64_t n = 1;
  double v[4096];
  for (int i = 0; i < rank; i++) n *= shape[i];
  for (int64_t i = 0; i < n; i++) v[i] = drawn(first + (uint64_t)i);
  return tn_from(c, TN_F64, shape, rank, v);
}

static void close_to(const char *what, int64_t i, double got, double want, double bound) {
  if (!(fabs(got - want) <= bound * fmax(1, fabs(want)))) fail_msg("%s %d: %.17g, not %.17g", what, (int)i, got, want);
}

static void judge(const model *m) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  assert_non_null(c);
  double p[4096], value;
  int64_t n = 0;
  for (int k = 0; k < m->nparts; k++) n += count(&m->part[k]);
  for (int64_t i = 0; i < n; i++) p[i] = drawn((uint64_t)i);
  tn_scope(c) {
    tn_tensor *x[MOST_PARTS], *g[MOST_PARTS];
    const double *at = p;
    for (int k = 0; k < m->nparts; at += count(&m->part[k++]))
      x[k] = tn_from(c, TN_F64, m->part[k].shape, m->part[k].rank, at);
    tn_tensor *loss = m->graph(c, x);
    if (tn_grad(loss, m->nparts, x, g) != TN_OK || tn_item(loss, &value) != TN_OK)
      fail_msg("%s", tn_last_error(c)->text);
    close_to("objective", 0, value, m->loops(p), 1e-11);
    double got[4096], *to = got;
    for (int k = 0; k < m->nparts; to += count(&m->part[k++]))
      if (tn_read(g[k], to, (size_t)count(&m->part[k]) * sizeof *to) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    for (int64_t i = 0; i < n; i++) {
      double was = p[i], h = 6e-6, up, down;
      p[i] = was + h, up = m->loops(p);
      p[i] = was - h, down = m->loops(p);
      p[i] = was;
      close_to("gradient", i, got[i], (up - down) / (2 * h), 2e-7);
    }
  }
  tn_ctx_close(c);
}

/* ---- a Gaussian mixture ------------------------------------------------------------------------------------------
 *
 * K components of D dimensions: weights alpha, means mu, and the inverse factor of each covariance, Q, lower
 * triangular: exp of the first D parameters on the diagonal, the others below it, row by row. */

enum { K = 4, D = 3, BELOW = D * (D - 1) / 2, N = 11, FROM_X = 5000 };

static double mixture_loops(const double *p) {
  const double *alpha = p, *mu = p + K, *diagonal = mu + K * D, *below = diagonal + K * D;
  double all = -0.5 * N * D * log(2 * M_PI), top = -INFINITY, sum = 0;
  for (int k = 0; k < K; k++) top = fmax(top, alpha[k]);
  for (int k = 0; k < K; k++) sum += exp(alpha[k] - top);
  all -= N * (top + log(sum));
  for (int i = 0; i < N; i++) {
    double term[K], most = -INFINITY, total = 0;
    for (int k = 0; k < K; k++) {
      double squares = 0, scale = 0;
      for (int d = 0; d < D; d++) {
        double y = 0;
        for (int e = 0; e <= d; e++) {
          double q = e == d ? exp(diagonal[k * D + d]) : below[k * BELOW + d * (d - 1) / 2 + e];
          y += q * (drawn(FROM_X + (uint64_t)(i * D + e)) - mu[k * D + e]);
        }
        squares += y * y;
        scale += diagonal[k * D + d];
      }
      term[k] = alpha[k] + scale - 0.5 * squares;
      most = fmax(most, term[k]);
    }
    for (int k = 0; k < K; k++) total += exp(term[k] - most);
    all += most + log(total);
  }
  for (int i = 0; i < K * D; i++) all -= 0.5 * exp(2 * diagonal[i]) - diagonal[i]; /* a prior on Q */
  for (int i = 0; i < K * BELOW; i++) all -= 0.5 * below[i] * below[i];
  return all;
}

static tn_tensor *mixture_graph(tn_ctx *c, tn_tensor *const *p) {
  int last[] = {2}, second[] = {1};
  int32_t place[D * D]; /* of the element in `below`; outside of it: 0 */
  for (int d = 0; d < D; d++)
    for (int e = 0; e < D; e++) place[d * D + e] = e < d ? d * (d - 1) / 2 + e : -1;
  tn_tensor *x = given(c, FROM_X, 2, (tn_dim[]){N, D}), *at = tn_from(c, TN_I32, (tn_dim[]){D, D}, 2, place);
  tn_tensor *q = tn_add(tn_mul(tn_unsqueeze(tn_exp(p[2]), 1), tn_eye(c, TN_F64, D, D)), tn_take(p[3], at, 1));
  tn_tensor *off = tn_sub(tn_unsqueeze(x, 1), p[1]);
  tn_tensor *y = tn_einsum("kde,nke->nkd", (tn_tensor *[]){q, off}, 2);
  tn_tensor *term = tn_sub(tn_add(p[0], tn_sum(p[2], second, 1, false)),
                           tn_mul_scalar(tn_sum(tn_square(y), last, 1, false), 0.5));
  tn_tensor *all = tn_sub(tn_sum(tn_logsumexp(term, second, 1, false), NULL, 0, false),
                          tn_mul_scalar(tn_logsumexp(p[0], NULL, 0, false), N));
  tn_tensor *prior = tn_sub(tn_mul_scalar(tn_exp(tn_mul_scalar(p[2], 2)), 0.5), p[2]);
  all = tn_sub(all, tn_sum(prior, NULL, 0, false));
  all = tn_sub(all, tn_mul_scalar(tn_sum(tn_square(p[3]), NULL, 0, false), 0.5));
  return tn_add_scalar(all, -0.5 * N * D * log(2 * M_PI));
}

static void test_mixture(void **state) {
  (void)state;
  judge(&(model){4, {{{K}, 1}, {{K, D}, 2}, {{K, D}, 2}, {{K, BELOW}, 2}}, mixture_loops, mixture_graph});
}

/* ---- bundle adjustment -------------------------------------------------------------------------------------------
 *
 * Points seen by cameras of 11 parameters: a rotation's axis times its angle, the centre, the focal length, the
 * principal point, two of radial distortion.  Each observation has a weight. */

enum { CAMERAS = 3, POINTS = 7, SEEN = 13, CAMERA = 11 };

static int camera_of(int i) { return i * 2 % CAMERAS; }
static int point_of(int i) { return i * 5 % POINTS; }
static double seen_at(int i, int axis) { return drawn(7000 + (uint64_t)(2 * i + axis)); }

static double bundle_loops(const double *p) {
  const double *cameras = p, *points = p + CAMERAS * CAMERA, *weight = points + 3 * POINTS;
  double sum = 0;
  for (int i = 0; i < SEEN; i++) {
    const double *cam = cameras + CAMERA * camera_of(i), *x = points + 3 * point_of(i), *r = cam;
    double v[3], turned[3], angle = sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]), a[3], dot = 0;
    for (int k = 0; k < 3; k++) v[k] = x[k] - cam[3 + k], a[k] = r[k] / angle;
    for (int k = 0; k < 3; k++) dot += a[k] * v[k];
    for (int k = 0; k < 3; k++) {
      int l = (k + 1) % 3, m = (k + 2) % 3;
      turned[k] = v[k] * cos(angle) + (a[l] * v[m] - a[m] * v[l]) * sin(angle) + a[k] * dot * (1 - cos(angle));
    }
    turned[2] += 4; /* all points are in front */
    double u = turned[0] / turned[2], w = turned[1] / turned[2], rr = u * u + w * w;
    double bend = 1 + cam[9] * rr + cam[10] * rr * rr;
    double one = weight[i] * (u * bend * cam[6] + cam[7] - seen_at(i, 0)),
           two = weight[i] * (w * bend * cam[6] + cam[8] - seen_at(i, 1)), rest = 1 - weight[i] * weight[i];
    sum += one * one + two * two + rest * rest;
  }
  return sum;
}

static tn_tensor *columns(tn_tensor *t, int first, int n) { return tn_slice(t, 1, first, first + n, 1); }

static tn_tensor *bundle_graph(tn_ctx *c, tn_tensor *const *p) {
  int32_t camera[SEEN], point[SEEN], next[3] = {1, 2, 0}, after[3] = {2, 0, 1};
  double seen[2 * SEEN];
  int second[] = {1};
  for (int i = 0; i < SEEN; i++) {
    camera[i] = camera_of(i), point[i] = point_of(i);
    seen[2 * i] = seen_at(i, 0), seen[2 * i + 1] = seen_at(i, 1);
  }
  tn_tensor *cam = tn_take(p[0], tn_from(c, TN_I32, (tn_dim[]){SEEN}, 1, camera), 0),
            *x = tn_take(p[1], tn_from(c, TN_I32, (tn_dim[]){SEEN}, 1, point), 0);
  tn_tensor *l = tn_from(c, TN_I32, (tn_dim[]){3}, 1, next), *m = tn_from(c, TN_I32, (tn_dim[]){3}, 1, after);
  tn_tensor *r = columns(cam, 0, 3), *v = tn_sub(x, columns(cam, 3, 3));
  tn_tensor *angle = tn_sqrt(tn_sum(tn_square(r), second, 1, true)), *a = tn_div(r, angle);
  tn_tensor *cross = tn_sub(tn_mul(tn_take(a, l, 1), tn_take(v, m, 1)),
                            tn_mul(tn_take(a, m, 1), tn_take(v, l, 1)));
  tn_tensor *dot = tn_sum(tn_mul(a, v), second, 1, true), *turn = tn_cos(angle);
  tn_tensor *t = tn_add(tn_mul(v, turn), tn_mul(cross, tn_sin(angle)));
  t = tn_add(t, tn_mul(tn_mul(a, dot), tn_rsub_scalar(turn, 1)));
  tn_tensor *flat = tn_div(columns(t, 0, 2), tn_add_scalar(columns(t, 2, 1), 4));
  tn_tensor *rr = tn_sum(tn_square(flat), second, 1, true);
  tn_tensor *bend = tn_add_scalar(
      tn_add(tn_mul(columns(cam, 9, 1), rr), tn_mul(columns(cam, 10, 1), tn_square(rr))), 1);
  tn_tensor *shown = tn_add(tn_mul(tn_mul(flat, bend), columns(cam, 6, 1)), columns(cam, 7, 2));
  tn_tensor *off = tn_sub(shown, tn_from(c, TN_F64, (tn_dim[]){SEEN, 2}, 2, seen));
  tn_tensor *error = tn_sum(tn_square(tn_mul(tn_unsqueeze(p[2], 1), off)), NULL, 0, false);
  return tn_add(error, tn_sum(tn_square(tn_rsub_scalar(tn_square(p[2]), 1)), NULL, 0, false));
}

static void test_bundle(void **state) {
  (void)state;
  judge(&(model){3, {{{CAMERAS, CAMERA}, 2}, {{POINTS, 3}, 2}, {{SEEN}, 1}}, bundle_loops, bundle_graph});
}

/* ---- an LSTM -----------------------------------------------------------------------------------------------------
 *
 * Hochreiter and Schmidhuber, Long Short-Term Memory (1997), with forget gates: T words out of W, each predicted from
 * those before it.  W x, U h and b make the gates in, forget, out and the new content; V h the next word's logits. */

enum { T = 9, W = 6, H = 4, G = 4 * H };

static int word(int t) { return t * 4 % W; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double lstm_loops(const double *p) {
  const double *in = p, *own = p + W * G, *bias = own + H * G, *out = bias + G;
  double h[H] = {0}, s[H] = {0}, loss = 0;
  for (int t = 0; t + 1 < T; t++) {
    double gate[G], sum = 0, logit[W];
    for (int j = 0; j < G; j++) {
      gate[j] = bias[j] + in[word(t) * G + j];
      for (int i = 0; i < H; i++) gate[j] += h[i] * own[i * G + j];
    }
    for (int i = 0; i < H; i++) {
      s[i] = sigmoid(gate[H + i]) * s[i] + sigmoid(gate[i]) * tanh(gate[3 * H + i]);
      h[i] = sigmoid(gate[2 * H + i]) * tanh(s[i]);
    }
    for (int w = 0; w < W; w++) {
      logit[w] = 0;
      for (int i = 0; i < H; i++) logit[w] += h[i] * out[i * W + w];
      sum += exp(logit[w]);
    }
    loss += log(sum) - logit[word(t + 1)];
  }
  return loss / (T - 1);
}

static tn_tensor *lstm_graph(tn_ctx *c, tn_tensor *const *p) {
  int32_t words[T];
  for (int t = 0; t < T; t++) words[t] = word(t);
  tn_tensor *text = tn_from(c, TN_I32, (tn_dim[]){T}, 1, words), *x = tn_embedding(p[0], text), *h, *s, *said[T];
  h = s = tn_zeros(c, TN_F64, (tn_dim[]){H}, 1);
  for (int t = 0; t + 1 < T; t++) {
    tn_tensor *part[4], *gates = tn_add(tn_add(tn_select(x, 0, t), tn_matmul(h, p[1])), p[2]);
    if (tn_split(gates, 4, 0, part) != TN_OK) return NULL;
    s = tn_add(tn_mul(tn_sigmoid(part[1]), s), tn_mul(tn_sigmoid(part[0]), tn_tanh(part[3])));
    h = tn_mul(tn_sigmoid(part[2]), tn_tanh(s));
    said[t] = tn_matmul(h, p[3]);
  }
  return tn_cross_entropy(tn_stack(said, T - 1, 0), tn_slice(text, 0, 1, T, 1));
}

static void test_lstm(void **state) {
  (void)state;
  judge(&(model){4, {{{W, G}, 2}, {{H, G}, 2}, {{G}, 1}, {{H, W}, 2}}, lstm_loops, lstm_graph});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixture), cmocka_unit_test(test_bundle),
                                     cmocka_unit_test(test_lstm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
