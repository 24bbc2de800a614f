/* pl_buf: a model on random calls, the hard limit, a failing allocator, lines that are never searched twice. */
#include "ctest.h"
#include "pl_buf.h"

/* An allocator that keeps the books: what lives, what each block was said to hold, and when to fail. */
typedef struct books {
  size_t live, blocks, calls, fail_at, moved; /* fail_at: the number of the call that fails; 0: none */
} books;

static void *count_alloc (void *ud, void *ptr, size_t osize, size_t nsize) {
  books *b = ud;
  if (nsize == 0) {
    free(ptr);
    b->live -= osize;
    b->blocks -= ptr != NULL;
    return NULL;
  }
  if (++b->calls == b->fail_at) return NULL;
  char *fresh = malloc(nsize); /* always elsewhere, so that old pointers are wrong at once */
  if (fresh == NULL) exit(2);
  if (ptr) memcpy(fresh, ptr, osize < nsize ? osize : nsize);
  free(ptr);
  b->moved += osize;
  b->blocks += ptr == NULL;
  b->live += nsize - osize;
  return fresh;
}

static uint32_t seed = 7;
static uint32_t rnd (void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

/* The same calls on a plain array. */
typedef struct model {
  char text[1 << 16];
  size_t n;
} model;

static void append_both (pl_buf *b, model *m, size_t n, size_t max) {
  char piece[700] = {0};
  for (size_t i = 0; i < n; i++) piece[i] = rnd() % 40 ? (char)rnd() : '\n';
  bool ok = pl_buf_append(b, piece, n);
  CHECK_INT(ok, n == 0 || m->n + n <= max);
  if (!ok) return;
  memcpy(m->text + m->n, piece, n);
  m->n += n;
}

static void skip_both (pl_buf *b, model *m, size_t n) {
  pl_buf_skip(b, n);
  memmove(m->text, m->text + n, m->n - n);
  m->n -= n;
}

static void same_line (pl_buf *b, const model *m) {
  const char *lf = m->n ? memchr(m->text, '\n', m->n) : NULL;
  CHECK_INT(pl_buf_line(b), lf ? lf - m->text + 1 : 0);
}

static void against_model (size_t max) {
  static model m;
  books bk = {0};
  pl_buf b;
  pl_buf_init(&b, count_alloc, &bk, max);
  m.n = 0;
  for (int round = 0; round < 20000; round++) {
    ct_how("max %zu, round %d", max, round);
    switch (rnd() % 4) {
    case 0: append_both(&b, &m, rnd() % 700, max); break;
    case 1: skip_both(&b, &m, m.n ? rnd() % (m.n + 1) : 0); break;
    case 2: same_line(&b, &m); break;
    default: append_both(&b, &m, rnd() % 16, max);
    }
    pl_slice s = pl_buf_peek(&b);
    if (!CHECK_MEM(s.p, s.n, m.text, m.n)) break;
    CHECK_INT(pl_buf_len(&b), m.n);
    CHECK(b.cap <= 5 * max + 512);
  }
  ct_how(NULL);
  pl_buf_free(&b);
  pl_buf_free(&b);
  CHECK_INT(pl_buf_len(&b), 0);
  CHECK_INT(bk.live, 0);
  CHECK_INT(bk.blocks, 0);
}

static void limits (void) {
  books bk = {0};
  pl_buf b;
  pl_buf_init(&b, count_alloc, &bk, 10);
  CHECK(pl_buf_append(&b, "0123456789", 10));
  CHECK(!pl_buf_append(&b, "x", 1));
  CHECK(pl_buf_reserve(&b, 1) == NULL);
  CHECK(pl_buf_reserve(&b, SIZE_MAX) == NULL);
  CHECK_STR(pl_buf_peek(&b).p, pl_buf_len(&b), "0123456789");
  pl_buf_skip(&b, 4);
  CHECK(!pl_buf_append(&b, "abcde", 5));
  CHECK(pl_buf_append(&b, "abcd", 4));
  CHECK_STR(pl_buf_peek(&b).p, pl_buf_len(&b), "456789abcd");
  pl_buf_free(&b);
  pl_buf_init(&b, count_alloc, &bk, 0); /* no limit but the address space */
  CHECK(pl_buf_append(&b, "x", 1));
  CHECK(pl_buf_reserve(&b, SIZE_MAX) == NULL);
  CHECK(pl_buf_append(&b, NULL, 0));
  CHECK_STR(pl_buf_peek(&b).p, pl_buf_len(&b), "x");
  pl_buf_free(&b);
  CHECK_INT(bk.live, 0);
}

/* The n-th allocation fails: the call says so, the content stays, the next try succeeds. */
static void no_memory (void) {
  for (size_t n = 1; n <= 8; n++) {
    books bk = {.fail_at = n};
    pl_buf b;
    size_t want = 0, refused = 0;
    char piece[400];
    memset(piece, 'x', sizeof piece);
    ct_how("allocation %zu fails", n);
    pl_buf_init(&b, count_alloc, &bk, 0);
    for (int i = 0; i < 60; i++) {
      if (pl_buf_append(&b, piece, sizeof piece)) want += sizeof piece;
      else refused++;
      if (i % 3 == 0 && want > 100) pl_buf_skip(&b, 100), want -= 100;
      CHECK_INT(pl_buf_len(&b), want);
      CHECK_INT(pl_buf_len(&b) ? *pl_buf_peek(&b).p : 'x', 'x');
    }
    CHECK_INT(refused, 1);
    pl_buf_free(&b);
    CHECK_INT(bk.live, 0);
    CHECK_INT(bk.blocks, 0);
  }
  ct_how(NULL);
}

/* A line that comes byte by byte costs its length: the mark is never behind what has been searched. */
static void line_mark (void) {
  books bk = {0};
  pl_buf b;
  pl_buf_init(&b, count_alloc, &bk, 0);
  CHECK_INT(pl_buf_line(&b), 0);
  for (size_t i = 1; i <= 1000; i++) {
    pl_buf_append(&b, "a", 1);
    CHECK_INT(pl_buf_line(&b), 0);
    CHECK_INT(b.scan, i);
  }
  pl_buf_append(&b, "\nbc\n", 4);
  CHECK_INT(pl_buf_line(&b), 1001);
  CHECK_INT(pl_buf_line(&b), 1001);
  pl_buf_skip(&b, 1001);
  CHECK_INT(pl_buf_line(&b), 3);
  pl_buf_skip(&b, 1); /* the middle of a line */
  CHECK_INT(pl_buf_line(&b), 2);
  pl_buf_skip(&b, 2);
  CHECK_INT(pl_buf_line(&b), 0);
  CHECK(b.cap <= 2048);
  pl_buf_append(&b, "abcdef\n", 7);
  CHECK_INT(pl_buf_line(&b), 7);
  CHECK_INT(b.scan, 6); /* asking again finds it at once */
  pl_buf_free(&b);
}

/* Appending in small pieces, and a full queue with bytes going through it, move each byte a bounded number of times. */
static void linear (void) {
  books bk = {0};
  pl_buf b;
  pl_buf_init(&b, count_alloc, &bk, 0);
  for (int i = 0; i < 1 << 20; i++) pl_buf_append(&b, "x", 1);
  CHECK(bk.moved <= 3u << 20);
  CHECK(bk.calls < 40);
  pl_buf_free(&b);
  pl_buf_init(&b, count_alloc, &bk, 4096);
  for (int i = 0; i < 4000; i++) pl_buf_append(&b, "x", 1);
  bk.calls = 0;
  for (int i = 0; i < 1 << 18; i++) pl_buf_skip(&b, 1), pl_buf_append(&b, "x", 1);
  CHECK(bk.calls <= 8);
  CHECK(b.cap <= 4 * 4096);
  pl_buf_free(&b);
}

int main (void) {
  against_model(1000);
  against_model(5000);
  against_model(60000);
  limits();
  no_memory();
  line_mark();
  linear();
  return ct_done();
}
