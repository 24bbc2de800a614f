#include "pl_buf.h"
#include "pl_scan.h"

#define SMALLEST 512 /* below this, growing costs more than the memory it saves */

void pl_buf_init (pl_buf *b, pl_alloc alloc, void *ud, size_t max) {
  memset(b, 0, sizeof *b);
  b->alloc = alloc;
  b->ud = ud;
  b->max = max;
}

static void to_front (pl_buf *b) {
  size_t n = b->w - b->r;
  if (n > 0 && b->r > 0) memmove(b->mem, b->mem + b->r, n);
  b->r = 0;
  b->w = n;
}

/* Grows to hold need bytes; half as much again, so that appending stays linear. */
static bool grow (pl_buf *b, size_t need) {
  size_t cap = b->cap < SIZE_MAX / 3 * 2 ? b->cap + b->cap / 2 : b->cap;
  if (cap < need) cap = need;
  if (cap < SMALLEST) cap = SMALLEST;
  char *mem = b->alloc(b->ud, b->mem, b->cap, cap);
  if (mem == NULL) return false;
  b->mem = mem;
  b->cap = cap;
  return true;
}

char *pl_buf_reserve (pl_buf *b, size_t n) {
  size_t len = b->w - b->r;
  if (n > SIZE_MAX - len || (b->max && len + n > b->max)) return NULL;
  if (len == 0) b->r = b->w = b->scan = 0;
  if (b->cap - b->w >= n) return b->mem + b->w;
  /* moving pays only while the dead part is the larger: otherwise growing keeps the total linear */
  bool fits = b->r >= len && b->cap - len >= n;
  to_front(b);
  if (!fits && !grow(b, len + n)) return NULL;
  return b->mem + b->w;
}

void pl_buf_skip (pl_buf *b, size_t n) {
  b->r += n;
  b->scan = b->scan > n ? b->scan - n : 0;
  if (b->r == b->w) b->r = b->w = 0;
}

bool pl_buf_append (pl_buf *b, const char *p, size_t n) {
  if (n == 0) return true;
  char *to = pl_buf_reserve(b, n);
  if (to == NULL) return false;
  memcpy(to, p, n);
  pl_buf_commit(b, n);
  return true;
}

size_t pl_buf_line (pl_buf *b) {
  pl_slice s = pl_buf_peek(b);
  size_t left = s.n - b->scan;
  size_t i = pl_scan_byte(s.p + b->scan, left, '\n');
  if (i == left) {
    b->scan = s.n;
    return 0;
  }
  b->scan += i; /* whoever asks again finds it at once */
  return b->scan + 1;
}

void pl_buf_free (pl_buf *b) {
  if (b->mem) b->alloc(b->ud, b->mem, b->cap, 0);
  b->mem = NULL;
  b->r = b->w = b->cap = b->scan = 0;
}
