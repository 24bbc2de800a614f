/* Invariant: byte searches answer what naive ones do, and a byte queue what a plain array does, with an allocator that
   fails where the input says. */
#include "fuzz.h"
#include "pl_buf.h"
#include "pl_scan.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static const pl_slice needles[] = {{"\r\n", 2}, {"\r\n--b", 5}, {"\n--b", 4}, {"\r\n--AaB03x", 10},
                                   {"\r\n------WebKitFormBoundary0123", 31}};

static void searches (const fuzz_input *in) {
  pl_slice d = needles[in->options % 5];
  size_t n = in->n, at = n, tail = 0;
  char *p = malloc(n ? n : 1);
  if (n > 0) memcpy(p, in->p, n);
  for (size_t i = n; i-- > 0;)
    if (n - i >= d.n && memcmp(p + i, d.p, d.n) == 0) at = i;
  for (size_t k = 1; k < d.n && k <= n; k++)
    if (memcmp(p + n - k, d.p, k) == 0) tail = k;
  INVARIANT(pl_scan_needle(p, n, d) == at, "needle at %zu, found at %zu", at, pl_scan_needle(p, n, d));
  INVARIANT(pl_scan_tail(p, n, d) == tail, "a tail of %zu, found %zu", tail, pl_scan_tail(p, n, d));
  const char *byte = n ? memchr(p, in->options, n) : NULL;
  INVARIANT(pl_scan_byte(p, n, (char)in->options) == (byte ? (size_t)(byte - p) : n), "the first byte");
  free(p);
}

typedef struct failing { size_t calls, fail_at; } failing;

static void *alloc (void *ud, void *ptr, size_t osize, size_t nsize) {
  failing *f = ud;
  (void)osize;
  if (nsize == 0) return free(ptr), NULL;
  return ++f->calls == f->fail_at ? NULL : realloc(ptr, nsize);
}

/* Each two bytes are a call: what, how much. */
static void queue (const fuzz_input *in) {
  failing f = {0, in->options >> 4};
  size_t max = in->options & 8 ? 300 : 0, n = 0;
  char *model = malloc(256 * (in->n + 1));
  pl_buf b;
  pl_buf_init(&b, alloc, &f, max);
  for (size_t i = 0; i + 1 < in->n; i += 2) {
    size_t k = (unsigned char)in->p[i + 1], calls = f.calls;
    if (in->p[i] & 1 || in->p[i] == 10) {
      char piece[256];
      memset(piece, in->p[i], k);
      bool ok = pl_buf_append(&b, piece, k), over = max && n + k > max;
      INVARIANT(ok == !(k && (over || (f.calls > calls && f.calls == f.fail_at))), "an append fails for a reason");
      if (ok) memcpy(model + n, piece, k), n += k;
    } else {
      if (k > n) k = n;
      pl_buf_skip(&b, k);
      memmove(model, model + k, n -= k);
    }
    pl_slice s = pl_buf_peek(&b);
    INVARIANT(s.n == n && memcmp(s.p, model, n) == 0, "the content");
    const char *lf = n ? memchr(model, '\n', n) : NULL;
    INVARIANT(pl_buf_line(&b) == (lf ? (size_t)(lf - model) + 1 : 0), "the first line");
  }
  pl_buf_free(&b);
  free(model);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  fuzz_input in;
  if (!fuzz_read(data, size, &in)) return 0;
  searches(&in);
  queue(&in);
  return 0;
}
