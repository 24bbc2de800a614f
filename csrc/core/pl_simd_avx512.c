/* AVX-512 with VBMI: a block is one vector; characters are classed by one look-up in a table of 128. */
#include "pl_simd_sets.h"

#if PL_X86
#include <immintrin.h>

#include "pl_char.h"

#define PL_ISA __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,bmi,bmi2,lzcnt,popcnt")))

#include "pl_simd_scalars.h"

/* 1: not a tchar; 2: below 0x20 but LF, or DEL */
#define C(c) ((PL_IS_TCHAR(c) ? 0 : 1) | (((c) < 0x20 && (c) != '\n') || (c) == 0x7f ? 2 : 0)),
#define C4(c) C(c) C((c) + 1) C((c) + 2) C((c) + 3)
#define C16(c) C4(c) C4((c) + 4) C4((c) + 8) C4((c) + 12)
#define C64(c) C16(c) C16((c) + 16) C16((c) + 32) C16((c) + 48)
static const unsigned char classes[128] __attribute__((aligned(64))) = {C64(0) C64(64)};

static inline PL_ISA masks masks_of (__m512i x) {
  __m512i c = _mm512_permutex2var_epi8(_mm512_load_si512(classes), x, _mm512_load_si512(classes + 64));
  uint64_t high = _mm512_movepi8_mask(x); /* from 0x80 on the look-up is wrong: content, and no tchar */
  masks m;
  m.lf = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\n'));
  m.odd = _mm512_test_epi8_mask(c, _mm512_set1_epi8(2)) & ~high;
  m.nontoken = _mm512_test_epi8_mask(c, _mm512_set1_epi8(1)) | high;
  return m;
}

static inline PL_ISA masks block_masks (const char *p) { return masks_of(_mm512_loadu_si512(p)); }

/* Masked loads touch no byte that they leave out. */
static inline PL_ISA masks tail_masks (const char *p, size_t n, size_t whole) {
  uint64_t there = (UINT64_C(1) << n) - 1;
  (void)whole;
  masks m = masks_of(_mm512_maskz_loadu_epi8(there, p));
  m.odd &= there;
  return m;
}

static inline PL_ISA uint32_t low_bit (uint64_t x) { return (uint32_t)_tzcnt_u64(x); }
static inline PL_ISA uint32_t popcount (uint64_t x) { return (uint32_t)_mm_popcnt_u64(x); }

#define NONTOKEN_TELLS
#include "pl_simd_lines.h"

static inline PL_ISA uint64_t candidates (const char *p, size_t apart, __m512i first, __m512i last) {
  __mmask64 m = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), first);
  return _mm512_mask_cmpeq_epi8_mask(m, _mm512_loadu_si512(p + apart), last);
}

static inline PL_ISA uint64_t matches (const char *p, char c) {
  return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(c));
}

#define VECTOR __m512i
#define SPREAD(c) _mm512_set1_epi8(c)
#include "pl_simd_needle.h"

const pl_simd pl_simd_avx512 = {"avx512", find_needle, read_lines};
#else
typedef int pl_no_avx512;
#endif
