/* NVRTC, whose cubin is the source, and cuBLASLt, column-major and slow. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
  const char *source, *name;
  int failed;
} program;

int nvrtcCreateProgram(program **p, const char *source, const char *name, int n, const char *const *header,
                       const char *const *include) {
  *p = malloc(sizeof **p);
  **p = (program){.source = strdup(source), .name = strdup(name)};
  return n || header || include;
}
int nvrtcDestroyProgram(program **p) {
  free((char *)(uintptr_t)(*p)->source);
  free((char *)(uintptr_t)(*p)->name);
  free(*p);
  *p = NULL;
  return 0;
}
int nvrtcCompileProgram(program *p, int n, const char *const *option) {
  for (int i = 0; i < n; i++)
    if (strncmp(option[i], "--", 2)) return 5;
  return p->failed = strstr(p->source, "mistake") ? 6 : 0;
}
int nvrtcGetCUBINSize(const program *p, size_t *n) { return *n = strlen(p->source) + 1, p->failed; }
int nvrtcGetCUBIN(const program *p, char *out) { return strcpy(out, p->source), p->failed; }
int nvrtcGetProgramLogSize(const program *p, size_t *n) { return *n = strlen(p->name) + 40, 0; }
int nvrtcGetProgramLog(const program *p, char *out) {
  return sprintf(out, "%s(7): error: a mistake\n1 error\n", p->name) < 0;
}

typedef struct desc {
  int compute, scale, trans[2], epilogue; /* 2: no negative values; 4: a row */
  const void *row;
} desc;
typedef struct layout {
  int type, batch;
  int64_t rows, cols, ld, stride;
} layout;

enum { F32 = 0, F64 = 1, COMPUTE_F32 = 68, COMPUTE_F64 = 70 };

int cublasLtCreate(void **h) { return *h = malloc(1), 0; }
int cublasLtDestroy(void *h) { return free(h), 0; }
int cublasLtMatmulDescCreate(desc **d, int compute, int scale) {
  *d = malloc(sizeof **d);
  **d = (desc){.compute = compute, .scale = scale};
  return 0;
}
int cublasLtMatmulDescDestroy(desc *d) { return free(d), 0; }
int cublasLtMatmulDescSetAttribute(desc *d, int what, const void *v, size_t n) {
  if (what == 8 && n == sizeof d->row) return memcpy(&d->row, v, n), 0;
  if (n != 4 || (what != 3 && what != 4 && what != 7)) return 7;
  return memcpy(what == 7 ? &d->epilogue : &d->trans[what - 3], v, n), 0;
}
int cublasLtMatrixLayoutCreate(layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *l = malloc(sizeof **l);
  **l = (layout){.type = type, .batch = 1, .rows = (int64_t)rows, .cols = (int64_t)cols, .ld = ld};
  return 0;
}
int cublasLtMatrixLayoutDestroy(layout *l) { return free(l), 0; }
int cublasLtMatrixLayoutSetAttribute(layout *l, int what, const void *v, size_t n) {
  if (what == 5 && n == 4) memcpy(&l->batch, v, n);
  else if (what == 6 && n == 8) memcpy(&l->stride, v, n);
  else return 7;
  return 0;
}
int cublasLtMatmulPreferenceCreate(void **p) { return *p = malloc(1), 0; }
int cublasLtMatmulPreferenceDestroy(void *p) { return free(p), 0; }
int cublasLtMatmulPreferenceSetAttribute(void *p, int what, const void *v, size_t n) {
  return !p || !v || n != (what == 1 ? 8 : 4);
}

/* Refuses what the library refuses: rows that overlap, shapes that do not fit. */
int cublasLtMatmulAlgoGetHeuristic(void *h, const desc *d, const layout *a, const layout *b, const layout *c,
                                   const layout *out, void *pref, int n, void *result, int *found) {
  int64_t m = d->trans[0] ? a->cols : a->rows, k = d->trans[0] ? a->rows : a->cols;
  int64_t k2 = d->trans[1] ? b->cols : b->rows, cols = d->trans[1] ? b->rows : b->cols;
  memset(result, 0, 96);
  *found = 0;
  if (!h || !pref || n != 1 || c != out) return 7;
  if (a->ld < a->rows || b->ld < b->rows || c->ld < c->rows || k != k2 || c->rows != m || c->cols != cols) return 15;
  if (a->type != b->type || a->type != c->type || d->scale != (a->type == F64 ? F64 : F32) ||
      d->compute != (a->type == F64 ? COMPUTE_F64 : COMPUTE_F32))
    return 15;
  *found = a->type == F32 || a->type == F64;
  return 0;
}

static double get(const void *p, int type, int64_t i) {
  return type == F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

int cublasLtMatmul(void *h, const desc *d, const void *alpha, const void *a, const layout *la, const void *b,
                   const layout *lb, const void *beta, const void *c, const layout *lc, void *out, const layout *lout,
                   const void *algo, void *workspace, size_t n, void *stream) {
  if (!h || !algo || !workspace || !n || !stream || c != out || lc != lout) return 7;
  int64_t k = d->trans[0] ? la->rows : la->cols;
  for (int64_t at = 0; at < lc->batch; at++)
    for (int64_t j = 0; j < lc->cols; j++)
      for (int64_t i = 0; i < lc->rows; i++) {
        double sum = 0;
        int64_t to = at * lc->stride + j * lc->ld + i;
        for (int64_t x = 0; x < k; x++)
          sum += get(a, la->type, at * la->stride + (d->trans[0] ? i * la->ld + x : x * la->ld + i)) *
                 get(b, lb->type, at * lb->stride + (d->trans[1] ? x * lb->ld + j : j * lb->ld + x));
        double scale = get(beta, d->scale, 0);
        sum = sum * get(alpha, d->scale, 0) + (scale == 0 ? 0 : scale * get(out, lc->type, to));
        if (d->epilogue & 4) sum += get(d->row, lc->type, i);
        if (d->epilogue & 2 && sum < 0) sum = 0;
        if (lc->type == F64) ((double *)out)[to] = sum;
        else ((float *)out)[to] = (float)sum;
      }
  return 0;
}
