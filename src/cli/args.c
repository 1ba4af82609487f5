/* Command-line options by table: --name value, --name=value, --flag. */
#include "cli/args.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tn__arg_spec *find(const tn__arg_spec *spec, size_t n, const char *arg, size_t len) {
  for (size_t i = 0; i < n; i++)
    if (strlen(spec[i].name) == len && !strncmp(spec[i].name, arg, len)) return &spec[i];
  return NULL;
}

static bool store_number(const tn__arg_spec *s, const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (*text && !*end && !errno && v >= s->lo && v <= s->hi) {
    *out = v;
    return true;
  }
  fprintf(stderr, "tenet: %s takes a number from %lld to %lld, not '%s'\n", s->name, (long long)s->lo, (long long)s->hi,
          text);
  return false;
}

bool tn__args_parse(int argc, char **argv, const tn__arg_spec *spec, size_t n, void *into, const char **words, int room,
                    int *nwords) {
  *nwords = 0;
  for (int i = 0; i < argc; i++) {
    const char *arg = argv[i];
    if (*arg != '-') {
      if (*nwords == room) {
        fprintf(stderr, "tenet: '%s' is one argument too many\n", arg);
        return false;
      }
      words[(*nwords)++] = arg;
      continue;
    }
    const char *equals = strchr(arg, '='), *value = equals ? equals + 1 : NULL;
    const tn__arg_spec *s = find(spec, n, arg, equals ? (size_t)(equals - arg) : strlen(arg));
    if (!s || (s->kind == ARG_FLAG && value)) {
      fprintf(stderr, "tenet: unknown option '%s'; see tenet --help\n", arg);
      return false;
    }
    void *field = (char *)into + s->offset;
    if (s->kind == ARG_FLAG) {
      *(bool *)field = true;
      continue;
    }
    if (!value && ++i < argc) value = argv[i];
    if (!value) {
      fprintf(stderr, "tenet: %s needs a value\n", s->name);
      return false;
    }
    if (s->kind == ARG_TEXT) *(const char **)field = value;
    else if (!store_number(s, value, field)) return false;
  }
  return true;
}

void tn__args_help(const tn__arg_spec *spec, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char left[40];
    snprintf(left, sizeof left, "%s %s", spec[i].name, spec[i].value ? spec[i].value : "");
    printf("  %-20s %s\n", left, spec[i].help);
  }
}
