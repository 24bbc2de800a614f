/* The search for a needle by two probes, its first byte and its last, 64 positions a step: included once by each vector
   set, which defines before it PL_ISA, VECTOR, SPREAD(c) and
     candidates(p, apart, first, last)  one bit for each of the 64 positions where both probes match
     matches(p, c)        one bit for each of the 64 bytes at p that is c
   Where many match, six other bytes of the needle are looked at in the same way, and the bytes next to the probes are
   compared before the whole: so an input made to match the probes gains little. */
#include "pl_scan.h"

/* The first and the last eight bytes of a needle. */
typedef struct ends {
  uint64_t head, tail;
} ends;

static inline PL_ISA uint64_t eight (const char *p) {
  uint64_t w;
  memcpy(&w, p, sizeof w);
  return w;
}

/* The first of the positions in bits where the needle stands, or 64. */
static inline PL_ISA unsigned confirm (const char *p, uint64_t bits, pl_slice needle, const ends *e) {
  for (; bits; bits &= bits - 1) {
    unsigned j = (unsigned)__builtin_ctzll(bits);
    const char *q = p + j;
    if (eight(q) != e->head || eight(q + needle.n - 8) != e->tail) continue;
    if (memcmp(q, needle.p, needle.n) == 0) return j;
  }
  return 64;
}

/* What is left of many candidates when more of the needle must match. */
static inline PL_ISA uint64_t sift (const char *p, uint64_t bits, pl_slice needle) {
  const size_t at[] = {1, 2, needle.n / 4, needle.n / 2, needle.n / 4 * 3, needle.n - 2};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) bits &= matches(p + at[i], needle.p[at[i]]);
  return bits;
}

static PL_ISA size_t find_needle (const char *p, size_t n, pl_slice needle) {
  if (needle.n < 8 || n < needle.n + 63) return pl_scan_needle(p, n, needle);
  size_t apart = needle.n - 1, starts = n - apart; /* starts >= 64: positions where it could begin */
  const VECTOR first = SPREAD(needle.p[0]), last = SPREAD(needle.p[apart]);
  const ends e = {eight(needle.p), eight(needle.p + needle.n - 8)};
  size_t i = 0;
  for (;;) {
    uint64_t bits = candidates(p + i, apart, first, last);
    if (__builtin_expect(bits != 0, 0)) {
      if (popcount(bits) > 2) bits = sift(p + i, bits, needle);
      unsigned j = confirm(p + i, bits, needle, &e);
      if (j < 64) return i + j;
    }
    if (starts - i <= 64) return n;
    i = starts - i >= 128 ? i + 64 : starts - 64; /* the last step overlaps the one before */
  }
}
