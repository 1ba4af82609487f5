/* Programs: a step recorded once, replayed without building a graph, scheduling or allocating.
 *
 *   tn_program *p = tn_program_begin(ctx);
 *   tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){B, 784}, 2);
 *   ... build the step; tn_assign() what it updates ...
 *   tn_program_output(p, "loss", loss);
 *   tn_program_end(p);
 *   for (...) { tn_program_write(p, "x", ...); tn_program_run(p); }
 *
 * Inputs are placeholders, rebound without a copy.  Outputs belong to the program until its next run.  State is
 * everything that was assigned while recording, the random generator included, and also where its handle has ended: a
 * run updates it in place.  Reading or realising a value inside a recording is an error.  Shapes, dtypes and devices
 * are those recorded; anything else is an error, never a silent re-trace. */
#ifndef TENET_PROGRAM_H
#define TENET_PROGRAM_H
#include "tenet/tensor_types.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_program tn_program;

/* Starts recording.  NULL on error (TN_ESTATE if one is being recorded).  The program belongs to the context. */
TN_API tn_program *tn_program_begin(tn_ctx *ctx);
/* A named input; a handle in the current scope.  Sizes may be symbolic (tn_dim_var). */
TN_API tn_tensor *tn_program_input(tn_program *p, const char *name, tn_dtype dtype, const tn_dim *shape, int rank);
/* Names an output.  `t` may be any value made from inputs, state and constants.  One without symbolic sizes that only
 * moves what stands in memory in any case (an input, another output), or is the same all along an axis, is not stored:
 * tn_program_result() gives the movement, and whoever computes with it goes there.  Ask for tn_contiguous(t) where
 * memory in the order of the shape is wanted at once. */
TN_API tn_status tn_program_output(tn_program *p, const char *name, tn_tensor *t);
/* Ends the recording and compiles.  On error the program can only be closed; assignments made while recording are
 * undone. */
TN_API tn_status tn_program_end(tn_program *p);
/* A value that is refused by one of these two leaves the input without any: until it gets one, tn_program_run() is
 * TN_ESTATE. Uses the realised tensor `value` as the input from now on, without a copy; symbolic sizes take its sizes.
 * A movement of a realised tensor, as tn_program_result() may give, is realised. */
TN_API tn_status tn_program_bind(tn_program *p, const char *name, tn_tensor *value);
/* Copies `bytes` of host data of the given concrete shape into the input's own buffer. */
TN_API tn_status tn_program_write(tn_program *p, const char *name, const tn_dim *shape, int rank, const void *data,
                                  size_t bytes);
/* Runs the step once.  TN_ESTATE if an input is unbound, TN_EBOUND if two inputs disagree on a symbolic size, it is out
 * of bounds or breaks a constraint, which is something that the graph needs and its bounds do not promise: that a slice
 * ends within its axis, that a window fits, that a maximum is of something, that two sizes are equal. */
TN_API tn_status tn_program_run(tn_program *p);
/* The output of the last run, as a tensor in the current scope: realised, or a movement of memory that is
 * (tn_program_output), which tn_realize() makes memory of its own: that has to come before tn_assign() or tn_write() to
 * it.  While its handle lives it keeps these values, and the next run writes to memory of its own, which costs an
 * allocation and on a GPU a new recording: for values of each run, tn_program_read is cheaper. */
TN_API tn_tensor *tn_program_result(tn_program *p, const char *name);
/* Copies an output of the last run to host memory, in the order of its shape.  bytes must be its size. */
TN_API tn_status tn_program_read(tn_program *p, const char *name, void *out, size_t bytes);

/* What one run does. */
typedef struct tn_program_info {
  int kernels;         /* generated kernels, library calls not counted */
  int library_calls;
  size_t intermediate; /* bytes of intermediate buffers at the last bound sizes, before they share memory */
  size_t arena;        /* bytes they take, sharing */
} tn_program_info;
TN_API tn_status tn_program_get_info(const tn_program *p, tn_program_info *out);
TN_API void tn_program_close(tn_program *p); /* NULL allowed */

/* What a program takes, gives and keeps: inputs in the order in which they were made; outputs in the order in which
 * they were named; states, which are the tensors that it assigns, the random state of those that draw numbers the last.
 * A view that is assigned (tn_assign) stands for its tensor: it is a state of its own if it was realised; else its
 * handle, if that was there before the recording, sees that part of its tensor after each run. */
typedef enum tn_program_part { TN_PROGRAM_INPUT, TN_PROGRAM_OUTPUT, TN_PROGRAM_STATE } tn_program_part;
typedef struct tn_program_value {
  const char *name;           /* lives as long as the program; "" of a state */
  tn_dtype dtype;
  int rank;
  tn_dim shape[TN_MAX_RANK];  /* as recorded; sizes may be symbolic */
  tn_tensor *tensor;          /* of a state: the tensor, as long as the program lives; NULL of the random state */
} tn_program_value;
TN_API int tn_program_count(const tn_program *p, tn_program_part part); /* once it has ended; -1 on error */
/* Number `index` of them, from 0.  TN_EINVAL: there is none. */
TN_API tn_status tn_program_describe(const tn_program *p, tn_program_part part, int index, tn_program_value *out);

/* Writes the graph, the schedule, the optimised kernels and the generated source of a program, or of what realising
 * these tensors would run: text that the parser of graphs reads back (the source excepted).  Nothing runs. */
TN_API tn_status tn_program_explain(const tn_program *p, FILE *out);
TN_API tn_status tn_explain(tn_tensor *const *t, int n, FILE *out);
/* Replays such text: its first section, be it a graph, a schedule or a kernel of one, is scheduled and lowered anew,
 * and written with all stages that follow it.  The sections after it are checked.  Nothing runs.  TN_EFORMAT names the
 * line of what is wrong. */
TN_API tn_status tn_explain_text(tn_ctx *ctx, const char *text, FILE *out);
/* The same three texts as strings, which the caller owns and ends with tn_string_free(); NULL on error. */
TN_API char *tn_program_explain_string(const tn_program *p);
TN_API char *tn_explain_string(tn_tensor *const *t, int n);
TN_API char *tn_explain_text_string(tn_ctx *ctx, const char *text);
/* Runs the first section of such a text, which may be written by hand.  A graph's is a function of its params: in[i] is
 * the value of number i, of its dtype and shape, and the outputs are lazy tensors.  A kernel's runs at once, on the
 * context's device, over flat buffers: in[i] is what buffer i holds (NULL: zeros, where the kernel writes it), and the
 * outputs are those it writes, by number.  Gives how many outputs there are, and the first `room` of them in out, -1 on
 * error.  TN_EFORMAT names the line of what is wrong, also where it cannot be shown that the accesses of a kernel stay
 * within its buffers; on "ref" each access is looked at when it happens, and TN_ERUN if it does not. */
TN_API int tn_run_text(tn_ctx *ctx, const char *text, int n, tn_tensor *const *in, int room, tn_tensor **out);
/* What realising these tensors would run, without running it. */
TN_API tn_status tn_get_info(tn_tensor *const *t, int n, tn_program_info *out);

#ifdef __cplusplus
}
#endif
#endif
