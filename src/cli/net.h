/* The demo's networks, and their training and test steps as programs.  Prefix tn__net_. */
#ifndef TN_CLI_NET_H
#define TN_CLI_NET_H
#include "tenet/tenet.h"

enum { TN__SIDE = 28, TN__PIXELS = TN__SIDE * TN__SIDE, TN__CLASSES = 10 };

typedef struct tn__net {
  const char *name, *text;
  void (*init)(tn_params *p); /* adds fresh parameters; errors stay in the context */
  tn_tensor *(*forward)(const tn_params *p, tn_tensor *x, bool training); /* x [B, 784] -> logits [B, 10] */
} tn__net;

const tn__net *tn__net_find(const char *name); /* "mlp", "cnn"; NULL if unknown */

/* A program of inputs "x" u8 [B, 784] and "y" u8 [B], 1 <= B <= batch, with output "loss" (f32), that updates all
 * parameters. */
tn_program *tn__net_train_step(const tn__net *net, tn_params *p, tn_optim *opt, int64_t batch);
/* Input "x" as above; output "digit", i64 [B]. */
tn_program *tn__net_test_step(const tn__net *net, tn_params *p, int64_t batch);
#endif
