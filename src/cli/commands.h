/* The subcommands.  Each takes what follows its name and returns the process's exit code. */
#ifndef TN_CLI_COMMANDS_H
#define TN_CLI_COMMANDS_H
#include "tenet/ctx.h"

int tn__command_train(int argc, char **argv);
int tn__command_devices(int argc, char **argv);
int tn__command_explain(int argc, char **argv);
int tn__command_prove(int argc, char **argv);
int tn__command_export(int argc, char **argv);
void tn__command_prove_help(void);
void tn__command_export_help(void);
void tn__command_train_help(void);
/* Prints the context's error (or `what` if there is none) to stderr; 1. */
int tn__command_failed(const tn_ctx *ctx, const char *what);
#endif
