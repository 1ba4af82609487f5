/* The tenet command. */
#include "cli/commands.h"
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *usage, *help;
  void (*options)(void);
} commands[] = {
    {"train", tn__command_train, "train mnist [options]", "train a network that reads digits", tn__command_train_help},
    {"explain", tn__command_explain, "explain mnist-mlp|mnist-cnn|FILE|--run FILE VALUE...",
     "graph, schedule and kernels of its training step, or of such a text", NULL},
    {"prove", tn__command_prove, "prove [options]", "prove every rewrite rule that there is", tn__command_prove_help},
    {"export", tn__command_export, "export --smt2|--coq", "the rules as statements for provers",
     tn__command_export_help},
    {"devices", tn__command_devices, "devices", "what there is to compute on", NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int tn__command_failed(const tn_ctx *ctx, const char *what) {
  const tn_error *e = tn_last_error(ctx);
  fflush(stdout); /* what came before stands before */
  if (e->status != TN_OK) fprintf(stderr, "tenet: %s\n", e->text);
  else if (what) fprintf(stderr, "tenet: %s\n", what);
  return 1;
}

static int help(void) {
  printf("tenet %s: a tensor compiler and runtime\n\n", tn_version());
  for (int i = 0; i < COMMANDS; i++) {
    printf("tenet %-30s %s\n", commands[i].usage, commands[i].help);
    if (commands[i].options) commands[i].options();
  }
  printf("tenet %-30s %s\ntenet %-30s %s\n", "--version", "", "--help", "");
  return 0;
}

static bool asks_for_help(int argc, char **argv) {
  if (argc < 2 || !strcmp(argv[1], "help")) return true;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
  return false;
}

static int dispatch(int argc, char **argv) {
  if (asks_for_help(argc, argv)) return help();
  const char *name = argv[1];
  if (!strcmp(name, "--version")) return printf("tenet %s\n", tn_version()) < 0;
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(commands[i].name, name)) return commands[i].run(argc - 2, argv + 2);
  fprintf(stderr, "tenet: there is no command '%s'; see tenet --help\n", name);
  return 2;
}

int main(int argc, char **argv) {
  int code = dispatch(argc, argv);
  if (fflush(stdout) == 0) return code;
  fprintf(stderr, "tenet: standard output cannot be written\n");
  return code ? code : 1;
}
