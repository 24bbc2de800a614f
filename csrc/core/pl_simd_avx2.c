/* AVX2: two 32-byte halves a block; characters are classed by two nibble look-ups. */
#include "pl_simd_sets.h"

#if PL_X86
#include <immintrin.h>

#define PL_ISA __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

#include "pl_simd_scalars.h"

#define ENTRY char
#include "pl_simd_nibbles.h"

typedef struct half {
  uint32_t lf, odd, nontoken;
} half;

static inline PL_ISA half half_masks (const char *p) {
  const __m256i low = _mm256_setr_epi8(LOW16, LOW16), high = _mm256_setr_epi8(HIGH16, HIGH16);
  const __m256i zero = _mm256_setzero_si256();
  __m256i x = _mm256_loadu_si256((const void *)p);
  __m256i nibble = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
  __m256i c = _mm256_and_si256(_mm256_shuffle_epi8(low, x), _mm256_shuffle_epi8(high, nibble));
  __m256i token = _mm256_and_si256(c, _mm256_set1_epi8((char)0xfc)), odd = _mm256_and_si256(c, _mm256_set1_epi8(3));
  __m256i lf = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('\n'));
  half m;
  m.lf = (uint32_t)_mm256_movemask_epi8(lf);
  m.odd = (uint32_t)_mm256_movemask_epi8(_mm256_andnot_si256(lf, _mm256_cmpgt_epi8(odd, zero)));
  m.nontoken = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(token, zero));
  return m;
}

/* The masks of two halves, the second of which begins `apart` bytes behind the first. */
static inline PL_ISA masks join (half a, half b, unsigned apart) {
  masks m = {a.lf | (uint64_t)b.lf << apart, a.odd | (uint64_t)b.odd << apart,
             a.nontoken | (uint64_t)b.nontoken << apart};
  return m;
}

static inline PL_ISA masks block_masks (const char *p) { return join(half_masks(p), half_masks(p + 32), 32); }

static inline PL_ISA masks shifted (masks m, unsigned by) {
  masks out = {m.lf >> by, m.odd >> by, m.nontoken >> by};
  return out;
}

/* Loads that end with the input, so that nothing behind it is touched. */
static inline PL_ISA masks tail_masks (const char *p, size_t n, size_t whole) {
  if (whole >= 64) return shifted(block_masks(p + n - 64), (unsigned)(64 - n));
  if (n >= 32) return join(half_masks(p), half_masks(p + n - 32), (unsigned)(n - 32));
  char copy[64] = {0};
  memcpy(copy, p, n);
  masks m = block_masks(copy);
  uint64_t there = (UINT64_C(1) << n) - 1;
  m.odd &= there;
  return m;
}

static inline PL_ISA uint32_t low_bit (uint64_t x) { return (uint32_t)_tzcnt_u64(x); }
static inline PL_ISA uint32_t popcount (uint64_t x) { return (uint32_t)_mm_popcnt_u64(x); }

#define NONTOKEN_TELLS
#include "pl_simd_lines.h"

/* Both probes of a needle in one step: its first byte and its last. */
static PL_ISA uint64_t candidates (const char *p, size_t apart, __m256i first, __m256i last) {
  __m256i a = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)p), first),
                               _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + apart)), last));
  __m256i b = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + 32)), first),
                               _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + apart + 32)), last));
  __m256i any = _mm256_or_si256(a, b);
  if (_mm256_testz_si256(any, any)) return 0;
  return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

static inline PL_ISA uint64_t matches (const char *p, char c) {
  __m256i x = _mm256_set1_epi8(c);
  __m256i a = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)p), x);
  __m256i b = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + 32)), x);
  return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

#define VECTOR __m256i
#define SPREAD(c) _mm256_set1_epi8(c)
#include "pl_simd_needle.h"

const pl_simd pl_simd_avx2 = {"avx2", find_needle, read_lines};
#else
typedef int pl_no_avx2;
#endif
