/* A C test is a main of checks that ends in `return ct_done();`. Include this header first: it asks for mmap.

     CHECK(cond)                      CHECK_INT(got, want)
     CHECK_STR(p, n, "literal")       CHECK_MEM(p, n, q, m)
     ct_how("cut at %zu", i);         said with every later failure, until the next call; ct_how(NULL) ends it

   A guard holds bytes next to a page that cannot be touched, so that one byte too far is a crash:

     ct_guard g; ct_guard_open(&g, 4096);               room for up to 4096 bytes
     const char *p = ct_guard_tail(&g, bytes, n);       p + n is not readable
     const char *q = ct_guard_head(&g, bytes, n);       q - 1 is not readable
     ct_guard_close(&g);

   Each placement replaces the one before; the rest of the room is filled with 0xA5. */

#ifndef CTEST_H
#define CTEST_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE 1
#endif

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#ifdef MAP_ANON
#define MAP_ANONYMOUS MAP_ANON
#else
#error "include ctest.h before any other header"
#endif
#endif

#if defined(__GNUC__)
#define CT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CT_PRINTF(fmt, args)
#endif

#define CT_SHOWN 50   /* failures printed in full; the others are only counted */

static struct {
  unsigned long passed, failed;
  char how[256];
} ct;

static inline void ct_how (const char *fmt, ...) CT_PRINTF(1, 2);
static inline int ct_count (int ok, const char *file, int line, const char *fmt, ...) CT_PRINTF(4, 5);

static inline void ct_how (const char *fmt, ...) {
  va_list ap;
  ct.how[0] = '\0';
  if (fmt == NULL) return;
  va_start(ap, fmt);
  vsnprintf(ct.how, sizeof ct.how, fmt, ap);
  va_end(ap);
}

static inline int ct_count (int ok, const char *file, int line, const char *fmt, ...) {
  va_list ap;
  if (ok) { ct.passed++; return 1; }
  if (ct.failed++ >= CT_SHOWN) return 0;
  fprintf(stderr, "%s%s:%d: ", ct.failed == 1 ? "\n" : "", file, line);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fprintf(stderr, "%s%s%s\n", ct.how[0] ? "  (" : "", ct.how, ct.how[0] ? ")" : "");
  return 0;
}

/* Bytes for a message: printable ones as they are, others as \xNN, at most 60. One buffer per slot. */
static inline const char *ct_show (int slot, const void *bytes, size_t n) {
  static char text[2][64 * 4];
  const unsigned char *p = bytes;
  char *out = text[slot];
  size_t i;
  for (i = 0; i < n && i < 60; i++)
    out += sprintf(out, p[i] >= 0x20 && p[i] < 0x7f && p[i] != '\\' ? "%c" : "\\x%02x", p[i]);
  strcpy(out, n > 60 ? "..." : "");
  return text[slot];
}

static inline int ct_int (long long got, long long want, const char *what, const char *file, int line) {
  return ct_count(got == want, file, line, "%s is %lld, want %lld", what, got, want);
}

static inline int ct_mem (const void *got, size_t n, const void *want, size_t m, const char *what, const char *file, int line) {
  int ok = n == m && (n == 0 || memcmp(got, want, n) == 0);
  if (ok) return ct_count(1, file, line, " ");
  return ct_count(0, file, line, "%s is \"%s\" (%lu bytes), want \"%s\" (%lu bytes)", what,
                  ct_show(0, got, n), (unsigned long)n, ct_show(1, want, m), (unsigned long)m);
}

/* Each is 1 when it holds, so that a test can stop: if (!CHECK(...)) return; */
#define CHECK(cond)             ct_count(!!(cond), __FILE__, __LINE__, "%s", #cond)
#define CHECK_INT(got, want)    ct_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define CHECK_STR(p, n, lit)    ct_mem((p), (n), (lit), strlen(lit), #p, __FILE__, __LINE__)
#define CHECK_MEM(p, n, q, m)   ct_mem((p), (n), (q), (m), #p, __FILE__, __LINE__)

static inline int ct_done (void) {
  printf("%lu passed, %lu failed\n", ct.passed, ct.failed);
  return ct.failed != 0;
}

typedef struct ct_guard {
  char *map;      /* one dead page, the room, one dead page */
  size_t page;
  size_t room;    /* a multiple of page */
} ct_guard;

static inline void ct_guard_open (ct_guard *g, size_t room) {
  g->page = (size_t)sysconf(_SC_PAGESIZE);
  g->room = (room / g->page + 1) * g->page;
  g->map = mmap(NULL, g->room + 2 * g->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g->map == MAP_FAILED || mprotect(g->map, g->page, PROT_NONE) != 0 ||
      mprotect(g->map + g->page + g->room, g->page, PROT_NONE) != 0) {
    perror("ct_guard_open");
    exit(2);
  }
}

static inline char *ct_guard_put (ct_guard *g, size_t at, const void *bytes, size_t n) {
  char *room = g->map + g->page;
  if (n > g->room) {
    fprintf(stderr, "ct_guard: %lu bytes in a room of %lu\n", (unsigned long)n, (unsigned long)g->room);
    exit(2);
  }
  memset(room, 0xA5, g->room);
  if (n > 0) memcpy(room + at, bytes, n);
  return room + at;
}

static inline char *ct_guard_tail (ct_guard *g, const void *bytes, size_t n) {
  return ct_guard_put(g, n > g->room ? 0 : g->room - n, bytes, n);
}

static inline char *ct_guard_head (ct_guard *g, const void *bytes, size_t n) {
  return ct_guard_put(g, 0, bytes, n);
}

static inline void ct_guard_close (ct_guard *g) {
  munmap(g->map, g->room + 2 * g->page);
}

#endif
