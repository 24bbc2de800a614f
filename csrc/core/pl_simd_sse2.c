/* SSE2: what every x86-64 has. No nibble look-ups: characters are classed by compares, and names apart from the rest. */
#include "pl_simd_sets.h"

#if PL_X86
#include <emmintrin.h>

#include "pl_char.h"

#define PL_ISA

#include "pl_simd_scalars.h"

typedef struct quarter {
  uint64_t lf, odd, colon, blank;
} quarter;

static inline quarter quarter_masks (const char *p) {
  __m128i x = _mm_loadu_si128((const void *)p);
  __m128i lf = _mm_cmpeq_epi8(x, _mm_set1_epi8('\n'));
  __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
  __m128i odd = _mm_or_si128(low, _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7f)));
  quarter m;
  m.lf = (uint32_t)_mm_movemask_epi8(lf);
  m.odd = (uint32_t)_mm_movemask_epi8(_mm_andnot_si128(lf, odd));
  m.colon = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8(':')));
  m.blank = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(' ')), x));
  return m;
}

/* Here `nontoken` has only the colons and the blanks: names and methods are checked by name_valid. */
static inline masks block_masks (const char *p) {
  masks m = {0, 0, 0};
  for (unsigned i = 0; i < 4; i++) {
    quarter q = quarter_masks(p + 16 * i);
    m.lf |= q.lf << (16 * i);
    m.odd |= q.odd << (16 * i);
    m.nontoken |= (q.colon | q.blank) << (16 * i);
  }
  return m;
}

#include "pl_simd_tail.h"

static inline uint32_t low_bit (uint64_t x) { return x ? (uint32_t)__builtin_ctzll(x) : 64; }

static inline uint32_t popcount (uint64_t x) { /* no instruction for it here; few bits are set */
  uint32_t n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}

/* Bytes from first to first + span. */
static inline __m128i within (__m128i x, char first, char span) {
  __m128i y = _mm_sub_epi8(x, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(y, _mm_set1_epi8(span)), y);
}

/* `nontoken` holds only what ends a name; sixteen bytes at a time are letters, digits, "-" and "_", as nearly all names
   are, or the table knows. room: bytes that can be read at p. */
static inline bool name_valid (const char *p, size_t n, size_t room) {
  if (n <= 16 && room >= 16) {
    __m128i x = _mm_loadu_si128((const void *)p);
    __m128i word = _mm_or_si128(within(_mm_or_si128(x, _mm_set1_epi8(0x20)), 'a', 25), within(x, '0', 9));
    __m128i line = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('-')), _mm_cmpeq_epi8(x, _mm_set1_epi8('_')));
    unsigned ok = (unsigned)_mm_movemask_epi8(_mm_or_si128(word, line));
    if ((~ok & ((1u << n) - 1)) == 0) return true;
  }
  return pl_span((pl_slice){p, n}, PL_TCHAR) == n;
}

#include "pl_simd_lines.h"

static inline uint64_t candidates (const char *p, size_t apart, __m128i first, __m128i last) {
  __m128i m[4];
  for (int i = 0; i < 4; i++)
    m[i] = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + 16 * i)), first),
                         _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + apart + 16 * i)), last));
  __m128i any = _mm_or_si128(_mm_or_si128(m[0], m[1]), _mm_or_si128(m[2], m[3]));
  if (_mm_movemask_epi8(any) == 0) return 0;
  uint64_t bits = 0;
  for (int i = 0; i < 4; i++) bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(m[i]) << (16 * i);
  return bits;
}

static inline uint64_t matches (const char *p, char c) {
  uint64_t bits = 0;
  for (int i = 0; i < 4; i++) {
    __m128i m = _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + 16 * i)), _mm_set1_epi8(c));
    bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(m) << (16 * i);
  }
  return bits;
}

#define VECTOR __m128i
#define SPREAD(c) _mm_set1_epi8(c)
#include "pl_simd_needle.h"

const pl_simd pl_simd_sse2 = {"sse2", find_needle, read_lines};
#else
typedef int pl_no_sse2;
#endif
