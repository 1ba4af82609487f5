/* The file cache: what it returns is whole and ours, or nothing. */
#include "base/cache.h"
#include "base/sb.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

static tn__mem mem;
static tn__arena arena;
static char root[64];

static int open_all(void **state) {
  (void)state;
  mem = (tn__mem){0};
  tn__arena_init(&arena, &mem);
  strcpy(root, "/tmp/tenet-test-cache-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static int close_all(void **state) {
  (void)state;
  tn__arena_free(&arena);
  char command[2 * sizeof root + 64];
  snprintf(command, sizeof command, "chmod -R u+rwx %s && rm -rf %s", root, root);
  return system(command) == 0 && mem.live == 0 ? 0 : -1;
}

static const char *below(const char *name) {
  tn__sb b;
  tn__sb_init(&b, &arena);
  tn__sb_printf(&b, "%s/%s", root, name);
  return tn__sb_str(&b);
}

static void write_file(const char *path, const char *text, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

static bool starts_with(const char *path, const char *text, size_t n) {
  char *got = tn__arena_alloc(&arena, n);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  bool same = fread(got, 1, n, f) == n && memcmp(got, text, n) == 0;
  fclose(f);
  return same;
}

static off_t size_of(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? st.st_size : -1;
}

static tn__key key_of(const char *text) {
  return tn__cache_key(text, strlen(text), (tn__key){0});
}

static bool store(tn__cache *c, tn__key key, const char *text, size_t n) {
  const char *tmp = tn__cache_temp(c, ".so", &arena);
  assert_non_null(tmp);
  write_file(tmp, text, n);
  bool kept = tn__cache_adopt(c, key, ".so", tmp);
  assert_int_equal(access(tmp, F_OK) == 0, !kept);
  if (!kept) unlink(tmp);
  return kept;
}

static void keys(void **state) {
  (void)state;
  tn__key a = key_of("abc"), b = key_of("abd");
  assert_true(a.a != b.a && a.b != b.b);
  tn__key ab = tn__cache_key("def", 3, a), ba = tn__cache_key("abc", 3, key_of("def"));
  assert_true(ab.a != ba.a && ab.b != ba.b);
}

static void stores_and_finds(void **state) {
  (void)state;
  tn__cache c;
  tn__cache_open(&c, &mem, below("a/b/c"));
  assert_non_null(c.dir);
  struct stat st;
  assert_int_equal(stat(below("a"), &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  static char text[100000]; /* several pieces of the hash loop */
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * i >> 3);
  const size_t size[] = {0, 1, 16384, 16385, sizeof text};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    assert_true(store(&c, key_of("k"), text, size[i])); /* the second and later ones replace */
    const char *path = tn__cache_find(&c, key_of("k"), ".so", &arena);
    assert_non_null(path);
    assert_true(starts_with(path, text, size[i]));
  }
  assert_null(tn__cache_find(&c, key_of("k"), ".o", &arena));
  assert_null(tn__cache_find(&c, key_of("l"), ".so", &arena));
  tn__cache_close(&c);
  tn__cache_open(&c, &mem, below("a/b/c")); /* another process's view */
  assert_non_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  tn__cache_close(&c);
}

/* Every single damaged byte, every truncation and anything appended counts as absent, and the file goes. */
static void damage_is_found(void **state) {
  (void)state;
  tn__cache c;
  tn__cache_open(&c, &mem, below("d"));
  static const char text[] = "the content of an entry";
  assert_true(store(&c, key_of("k"), text, sizeof text));
  const char *path = tn__cache_find(&c, key_of("k"), ".so", &arena);
  size_t n = (size_t)size_of(path);
  char good[256], bad[256];
  FILE *f = fopen(path, "rb");
  assert_int_equal(fread(good, 1, sizeof good, f), n);
  fclose(f);
  for (size_t i = 0; i < 3 * n; i++) {
    memcpy(bad, good, n);
    size_t length = n;
    if (i < n)
      bad[i] = (char)(bad[i] ^ 1 << i % 8);
    else if (i < 2 * n)
      length = i - n;
    else
      length = i - n + 1;
    if (length > n) memset(bad + n, 0, length - n);
    write_file(path, bad, length);
    assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
    assert_int_equal(size_of(path), -1);
  }
  write_file(path, good, n);
  assert_non_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  /* An entry under another's name is no entry either. */
  assert_true(store(&c, key_of("other"), text, sizeof text));
  assert_int_equal(rename(tn__cache_find(&c, key_of("other"), ".so", &arena), path), 0);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  /* Nor is a link, a directory, or what anybody might have written. */
  write_file(path, good, n);
  assert_int_equal(chmod(path, 0666), 0);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  assert_int_equal(rename(path, below("elsewhere")), 0);
  assert_int_equal(chmod(below("elsewhere"), 0600), 0);
  assert_int_equal(symlink(below("elsewhere"), path), 0);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  assert_false(store(&c, key_of("k"), text, sizeof text));
  tn__cache_close(&c);
}

/* One of several processes that write the same entries; readers see whole ones throughout. */
static int hammer(const char *dir, char mark) {
  tn__cache c;
  tn__cache_open(&c, &mem, dir);
  static char text[40000];
  memset(text, mark, sizeof text);
  for (int i = 0; i < 150; i++) {
    tn__key key = key_of(i % 2 ? "one" : "two");
    const char *tmp = tn__cache_temp(&c, ".so", &arena);
    FILE *f = tmp ? fopen(tmp, "wb") : NULL;
    if (!f || fwrite(text, 1, sizeof text, f) != sizeof text || fclose(f) != 0) return 1;
    if (!tn__cache_adopt(&c, key, ".so", tmp)) return 2;
    const char *path = tn__cache_find(&c, key, ".so", &arena);
    if (!path) return 3;
    char first, last;
    f = fopen(path, "rb");
    if (!f || fread(&first, 1, 1, f) != 1 || fseek(f, sizeof text - 1, SEEK_SET) != 0) return 4;
    if (fread(&last, 1, 1, f) != 1 || first != last || fclose(f) != 0) return 5;
  }
  tn__cache_close(&c);
  return 0;
}

static void concurrent_writers(void **state) {
  (void)state;
  const char *dir = below("e");
  pid_t child[4];
  for (int i = 0; i < 4; i++) {
    child[i] = fork();
    assert_true(child[i] >= 0);
    if (child[i] == 0) _exit(hammer(dir, (char)('a' + i)));
  }
  for (int i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_int_equal(status, 0);
  }
}

static void disabled(const char *dir) {
  tn__cache c;
  tn__cache_open(&c, &mem, dir);
  assert_null(c.dir);
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  assert_false(store(&c, key_of("k"), "x", 1)); /* the temporary file works all the same */
  tn__cache_close(&c);
}

static void unusable_directories(void **state) {
  (void)state;
  disabled(NULL);
  disabled("");
  disabled("/proc/no/such/place");
  write_file(below("file"), "x", 1);
  disabled(below("file"));
  disabled(below("file/below"));
  assert_int_equal(mkdir(below("open"), 0700), 0);
  assert_int_equal(chmod(below("open"), 0777), 0);
  disabled(below("open")); /* anybody could plant an entry */
}

/* Removing the directory behind its back stands in for a disk that has become full or read-only. */
static void disk_that_fails(void **state) {
  (void)state;
  tn__cache c;
  tn__cache_open(&c, &mem, below("f"));
  assert_non_null(c.dir);
  assert_int_equal(rmdir(below("f")), 0);
  assert_false(store(&c, key_of("k"), "x", 1));
  assert_null(tn__cache_find(&c, key_of("k"), ".so", &arena));
  assert_false(tn__cache_adopt(&c, key_of("k"), ".so", below("no such file")));
  tn__cache_close(&c);
}

static void no_memory(void **state) {
  (void)state;
  tn__cache c;
  tn__cache_open(&c, &mem, below("g"));
  const char *tmp = tn__cache_temp(&c, ".so", &arena);
  mem.fail_at = mem.count + 1;
  assert_false(tn__cache_adopt(&c, key_of("k"), ".so", tmp));
  mem.fail_at = 0;
  assert_int_equal(size_of(tmp), 0); /* untouched */
  assert_true(tn__cache_adopt(&c, key_of("k"), ".so", tmp));
  tn__cache_close(&c);
}

static void contents(void **state) {
  (void)state;
  tn__cache c, none = {.mem = &mem};
  const char *got;
  size_t size = 77;
  tn__cache_open(&c, &mem, below("h"));
  assert_null(tn__cache_read(&c, key_of("k"), ".bin", &arena, &size));
  tn__cache_write(&c, key_of("k"), ".bin", "one\0two", 7, &arena);
  assert_non_null(got = tn__cache_read(&c, key_of("k"), ".bin", &arena, &size));
  assert_int_equal(size, 7);
  assert_memory_equal(got, "one\0two", 7);
  tn__cache_write(&c, key_of("k"), ".bin", "", 0, &arena); /* replaces */
  assert_non_null(tn__cache_read(&c, key_of("k"), ".bin", &arena, &size));
  assert_int_equal(size, 0);
  const char *path = tn__cache_find(&c, key_of("k"), ".bin", &arena);
  assert_int_equal(truncate(path, size_of(path) - 1), 0);
  assert_null(tn__cache_read(&c, key_of("k"), ".bin", &arena, &size));
  tn__cache_write(&none, key_of("k"), ".bin", "x", 1, &arena);
  assert_null(tn__cache_read(&none, key_of("k"), ".bin", &arena, &size));
  tn__cache_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(keys, open_all, close_all),
      cmocka_unit_test_setup_teardown(stores_and_finds, open_all, close_all),
      cmocka_unit_test_setup_teardown(damage_is_found, open_all, close_all),
      cmocka_unit_test_setup_teardown(concurrent_writers, open_all, close_all),
      cmocka_unit_test_setup_teardown(unusable_directories, open_all, close_all),
      cmocka_unit_test_setup_teardown(disk_that_fails, open_all, close_all),
      cmocka_unit_test_setup_teardown(no_memory, open_all, close_all),
      cmocka_unit_test_setup_teardown(contents, open_all, close_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
