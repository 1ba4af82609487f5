/* The context's inside, and the one place where errors start and are caught.  Prefix tn__ctx_, tn__fail. */
#ifndef TN_IR_CTX_H
#define TN_IR_CTX_H
#include "base/cache.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sb.h"
#include "ir/node.h"
#include "ir/object.h"

struct tn_ctx {
  tn__mem mem;
  tn__arena scratch;        /* reset when the outermost tn__ctx_run() ends: what passes allocate */
  int depth;                /* nesting of tn__ctx_run */
  tn_options opt;           /* as resolved at open; strings owned by the context */
  tn_mode mode;
  uint64_t races;           /* seed of the orders in which the interpreter runs what races are looked for in; 0: none */
  int vector_bytes;         /* of the CPU's level: how wide kernels' vectors are */
  tn_error err;             /* first error since tn_clear_error */
  char err_text[1024], err_op[64];
  tn_status failed;         /* what failed latest: the status of the call, whatever error was pending before it */
  const char *api;          /* public function that is running, for messages */
  struct tn__intern *intern;    /* ir/node.c */
  tn_node *dead;            /* STORAGE nodes that died: device/ frees their buffers and then tn__node_free()s them */
  struct tn__rules *rules;      /* rewrite/ */
  struct tn__devices *devices;  /* device/ */
  struct tn__cells *cells;      /* tensor/: scopes and handles, the random state, symbolic sizes */
  struct tn__runtime *runtime;  /* run/: cached schedules, programs */
  tn__cache cache;          /* kernels on disk */
  tn__pool *pool;           /* worker threads */
  tn_stats stats;
  tn__objects objects;      /* programs, optimisers, files, ... */
};

/* Runs fn(ctx, arg) with errors caught: true if it returned.  On an error the context remembers the first one and this
 * returns false; ctx->failed is then the status of this one.  When the outermost one ends, scratch is reset and nodes
 * nobody refers to are freed. `api` names the public function. */
bool tn__ctx_run(tn_ctx *c, const char *api, void (*fn)(tn_ctx *, void *), void *arg);
/* Records the first error and unwinds.  Text: what is wrong, with shapes; the running public function is put in front.
 */
_Noreturn void tn__fail(tn_ctx *c, tn_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Of the pending error: its words without the public function in front. */
const char *tn__error_words(const tn_ctx *c);
/* Records the first error without unwinding; for functions that return a status. */
void tn__error(tn_ctx *c, tn_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* For a public function that cannot even begin: records TN_EINVAL in its name, and returns it. */
tn_status tn__refuse(tn_ctx *c, const char *api, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A copy that belongs to the caller, who ends it with tn_string_free().  Throws. */
char *tn__string_out(tn_ctx *c, const char *text);
#define tn__alloc(c, size) tn__arena_alloc(&(c)->scratch, size)

/* Work of which little stays: what is allocated in scratch between begin and end goes at the end, and so do the nodes
 * made in between that nobody refers to then.  What stays must be referred to, and stand elsewhere.  An error leaves it
 * all to the outermost call. */
typedef struct tn__work {
  tn__mark scratch;
  size_t nodes;
} tn__work;
tn__work tn__work_begin(tn_ctx *c);
void tn__work_end(tn_ctx *c, tn__work w);

void tn__intern_open(tn_ctx *c); /* throws TN_ENOMEM */
void tn__intern_close(tn_ctx *c);
void tn__intern_each(tn_ctx *c, void (*fn)(tn_ctx *, tn_node *, void *), void *arg); /* every node */
uint64_t tn__intern_last(const tn_ctx *c); /* the serial of the node that was made last */
size_t tn__intern_nursery(const tn_ctx *c); /* nodes in it */
/* Frees nodes that nobody refers to, all that came into the nursery when it had `from`; storages go to ctx->dead. */
void tn__intern_sweep(tn_ctx *c, size_t from);
void tn__node_free(tn_ctx *c, tn_node *n); /* a node from ctx->dead */
#endif
