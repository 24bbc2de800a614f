/* pl_scan: against naive twins, at every alignment and length, next to dead pages; linear work on hostile input. */
#include "ctest.h"
#include "pl_scan.h"

static uint32_t seed = 1;
static uint32_t rnd (void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

static size_t naive_byte (const char *p, size_t n, char c) {
  for (size_t i = 0; i < n; i++)
    if (p[i] == c) return i;
  return n;
}

static size_t naive_needle (const char *p, size_t n, pl_slice d) {
  for (size_t i = 0; i + d.n <= n; i++)
    if (memcmp(p + i, d.p, d.n) == 0) return i;
  return n;
}

static size_t naive_tail (const char *p, size_t n, pl_slice d) {
  for (size_t k = d.n - 1; k > 0; k--)
    if (k <= n && memcmp(p + n - k, d.p, k) == 0) return k;
  return 0;
}

static void compare (const char *p, size_t n, pl_slice d) {
  size_t byte = pl_scan_byte(p, n, d.p[0]), whole = pl_scan_needle(p, n, d), tail = pl_scan_tail(p, n, d);
  if (byte != naive_byte(p, n, d.p[0])) CHECK_INT(byte, naive_byte(p, n, d.p[0]));
  if (whole != naive_needle(p, n, d)) CHECK_INT(whole, naive_needle(p, n, d));
  CHECK_INT(tail, naive_tail(p, n, d));
}

/* What a hostile peer would write: pieces of the needle, its first and last byte, and the words' own edge cases. */
static void hostile (char *out, size_t n, pl_slice d) {
  for (size_t i = 0; i < n;) {
    size_t k = 1;
    switch (rnd() % 8) {
    case 0: out[i] = d.p[0]; break;
    case 1: out[i] = d.p[d.n - 1]; break;
    case 2: out[i] = (char)(d.p[0] ^ 1); break; /* the borrow of the zero test */
    case 3: out[i] = (char)(rnd() % 2 ? 0x80 : 0x00); break;
    case 4: out[i] = (char)rnd(); break;
    default: /* the beginning of a needle, or nearly all of it */
      k = rnd() % 4 ? d.n - rnd() % 2 : 1 + rnd() % d.n;
      if (k > n - i) k = n - i;
      memcpy(out + i, d.p, k);
    }
    i += k;
  }
}

static const pl_slice needles[] = {
    {"\r\n", 2}, {"\r\n--b", 5}, {"\r\n--bb", 6}, {"\n--AaB03x", 9},
    {"\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW", 42},
    {"\r\n--yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 74}, {"\xff\x80\x01", 3},
};
#define NEEDLES (sizeof needles / sizeof *needles)

static void every_length (ct_guard *g) {
  char text[256 + 8];
  for (size_t which = 0; which < NEEDLES; which++)
    for (size_t n = 0; n <= 256; n++)
      for (int round = 0; round < 4; round++) {
        ct_how("needle %zu, length %zu, round %d, seed %u", which, n, round, (unsigned)seed);
        hostile(text, n, needles[which]);
        compare(ct_guard_tail(g, text, n), n, needles[which]);
        compare(ct_guard_head(g, text, n), n, needles[which]);
      }
  ct_how(NULL);
}

/* The needle's end touches the dead page and its beginning any alignment; then the same one byte short of whole. */
static void every_alignment (ct_guard *g) {
  char text[512];
  for (size_t which = 0; which < NEEDLES; which++)
    for (size_t before = 0; before < 80; before++) {
      pl_slice d = needles[which];
      size_t n = before + d.n;
      memset(text, '-', before);
      memcpy(text + before, d.p, d.n);
      ct_how("needle %zu after %zu", which, before);
      CHECK_INT(pl_scan_needle(ct_guard_tail(g, text, n), n, d), before);
      CHECK_INT(pl_scan_needle(ct_guard_tail(g, text, n - 1), n - 1, d), n - 1);
      CHECK_INT(pl_scan_tail(ct_guard_tail(g, text, n - 1), n - 1, d), d.n - 1);
      memset(text + n, '\r', 64);
      for (size_t shift = 0; shift < 16; shift++) {
        char *p = ct_guard_head(g, "", 0) + shift;
        memcpy(p, text, n + 64);
        CHECK_INT(pl_scan_needle(p, n + 64, d), before);
      }
    }
  ct_how(NULL);
}

static void nothing (void) {
  CHECK_INT(pl_scan_byte(NULL, 0, 'a'), 0);
  CHECK_INT(pl_scan_needle(NULL, 0, needles[1]), 0);
  CHECK_INT(pl_scan_tail(NULL, 0, needles[1]), 0);
}

/* The scan compares the needle only where its first byte stands, and a failed comparison ends at the next such byte at
   the latest: so the bytes compared are at most the bytes there are. Counted here on the twin of that loop. */
static size_t work (const char *p, size_t n, pl_slice d) {
  size_t looked = 0;
  for (size_t i = 0; i + d.n <= n; i++) {
    if (p[i] != d.p[0] || p[i + d.n - 1] != d.p[d.n - 1]) continue;
    for (size_t k = 0; k < d.n; k++) {
      looked++;
      if (p[i + k] != d.p[k]) break;
    }
  }
  return looked;
}

static void linear (void) {
  enum { N = 1 << 20 };
  char *text = malloc(N);
  pl_slice d = needles[5];
  if (text == NULL) exit(2);
  for (int kind = 0; kind < 4; kind++) {
    for (size_t i = 0; i < N; i++) {
      bool wrong = kind == 3 && i % d.n == 40; /* needles with a wrong middle; before: without their last byte */
      text[i] = kind == 0 ? '\r' : kind == 1 ? '\n' : wrong ? 'z' : d.p[i % (kind == 2 ? d.n - 1 : d.n)];
    }
    ct_how("kind %d", kind);
    CHECK_INT(pl_scan_needle(text, N, d), N);
    CHECK(work(text, N, d) <= N);
  }
  ct_how(NULL);
  free(text);
}

int main (void) {
  ct_guard g;
  ct_guard_open(&g, 1024);
  nothing();
  every_length(&g);
  every_alignment(&g);
  linear();
  ct_guard_close(&g);
  return ct_done();
}
