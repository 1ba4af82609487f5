/* Command-line options by table.  Prefix tn__args_. */
#ifndef TN_CLI_ARGS_H
#define TN_CLI_ARGS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tn__arg_kind { ARG_TEXT, ARG_NUMBER, ARG_FLAG } tn__arg_kind;

typedef struct tn__arg_spec {
  const char *name;  /* "--epochs" */
  tn__arg_kind kind; /* the field is a const char *, an int64_t, a bool */
  size_t offset;     /* of the field */
  int64_t lo, hi;    /* of a number */
  const char *value, *help; /* "N", "passes over the data" */
} tn__arg_spec;

/* Fills the fields of `into`; prints what is wrong to stderr and returns false.  *words receives arguments that are no
 * options, at most `room`; their number goes to *nwords. */
bool tn__args_parse(int argc, char **argv, const tn__arg_spec *spec, size_t n, void *into, const char **words, int room,
                    int *nwords);
void tn__args_help(const tn__arg_spec *spec, size_t n);
#endif
