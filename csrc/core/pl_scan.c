#include "pl_scan.h"

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)
#define LANES 4 /* words a round: one test for 32 positions */

size_t pl_scan_byte (const char *p, size_t n, char c) {
  const char *hit = n ? memchr(p, c, n) : NULL;
  return hit ? (size_t)(hit - p) : n;
}

static uint64_t word (const char *p) {
  uint64_t w;
  memcpy(&w, p, sizeof w);
  return w;
}

/* Non-zero when some byte of w is zero. */
static uint64_t zeros (uint64_t w) { return (w - ONES) & ~w & HIGHS; }

/* Both probes of a needle, each spread over a word. */
typedef struct probes {
  uint64_t first, last;
  size_t apart;
} probes;

/* Non-zero when one of the eight positions at p matches both probes. */
static uint64_t both (const char *p, const probes *s) {
  return zeros((word(p) ^ s->first) | (word(p + s->apart) ^ s->last));
}

static size_t among (const char *p, size_t from, size_t to, pl_slice needle) {
  char last = needle.p[needle.n - 1];
  for (size_t i = from; i < to; i++)
    if (p[i] == needle.p[0] && p[i + needle.n - 1] == last && memcmp(p + i, needle.p, needle.n) == 0)
      return i;
  return to;
}

size_t pl_scan_needle (const char *p, size_t n, pl_slice needle) {
  if (n < needle.n) return n;
  size_t starts = n - needle.n + 1, i = 0; /* starts: positions where it could begin */
  probes s = {ONES * (unsigned char)needle.p[0], ONES * (unsigned char)needle.p[needle.n - 1],
              needle.n - 1};
  for (; starts - i >= 8 * LANES; i += 8 * LANES) {
    const char *q = p + i;
    if (both(q, &s) | both(q + 8, &s) | both(q + 16, &s) | both(q + 24, &s)) {
      size_t hit = among(p, i, i + 8 * LANES, needle);
      if (hit < i + 8 * LANES) return hit;
    }
  }
  i = among(p, i, starts, needle);
  return i < starts ? i : n;
}

size_t pl_scan_tail (const char *p, size_t n, pl_slice needle) {
  size_t longest = n < needle.n - 1 ? n : needle.n - 1;
  for (size_t k = 1; k <= longest; k++)
    if (p[n - k] == needle.p[0]) return memcmp(p + n - k, needle.p, k) == 0 ? k : 0;
  return 0;
}
