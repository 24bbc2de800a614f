/* NEON, which every AArch64 has: four 16-byte quarters a block; characters are classed by two table look-ups, and masks
   of bits are gathered from masks of bytes by pairwise adds. */
#include "pl_simd_sets.h"

#if PL_NEON
#include <arm_neon.h>

#define PL_ISA

#define ENTRY uint8_t
#include "pl_simd_nibbles.h"

static const uint8_t low[16] = {LOW16}, high[16] = {HIGH16};
static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};

/* One bit for each byte of four vectors of 0x00 and 0xff. */
static inline uint64_t gather (uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
  const uint8x16_t place = vld1q_u8(places);
  uint8x16_t ab = vpaddq_u8(vandq_u8(a, place), vandq_u8(b, place));
  uint8x16_t cd = vpaddq_u8(vandq_u8(c, place), vandq_u8(d, place));
  uint8x16_t all = vpaddq_u8(ab, cd);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

static inline masks block_masks (const char *p) {
  const uint8x16_t low_table = vld1q_u8(low), high_table = vld1q_u8(high);
  uint8x16_t lf[4], odd[4], nontoken[4];
  for (int i = 0; i < 4; i++) {
    uint8x16_t x = vld1q_u8((const uint8_t *)p + 16 * i);
    uint8x16_t c = vandq_u8(vqtbl1q_u8(low_table, vandq_u8(x, vdupq_n_u8(15))),
                            vqtbl1q_u8(high_table, vshrq_n_u8(x, 4)));
    lf[i] = vceqq_u8(x, vdupq_n_u8('\n'));
    odd[i] = vbicq_u8(vtstq_u8(c, vdupq_n_u8(3)), lf[i]);
    nontoken[i] = vceqzq_u8(vandq_u8(c, vdupq_n_u8(0xfc)));
  }
  masks m = {gather(lf[0], lf[1], lf[2], lf[3]), gather(odd[0], odd[1], odd[2], odd[3]),
             gather(nontoken[0], nontoken[1], nontoken[2], nontoken[3])};
  return m;
}

#include "pl_simd_tail.h"

static inline uint32_t low_bit (uint64_t x) { return x ? (uint32_t)__builtin_ctzll(x) : 64; }
static inline uint32_t popcount (uint64_t x) { return (uint32_t)__builtin_popcountll(x); }

#define NONTOKEN_TELLS
#include "pl_simd_lines.h"

static inline uint8x16_t probed (const char *p, size_t apart, uint8x16_t first, uint8x16_t last) {
  return vandq_u8(vceqq_u8(vld1q_u8((const uint8_t *)p), first), vceqq_u8(vld1q_u8((const uint8_t *)p + apart), last));
}

static inline uint64_t candidates (const char *p, size_t apart, uint8x16_t first, uint8x16_t last) {
  uint8x16_t a = probed(p, apart, first, last), b = probed(p + 16, apart, first, last);
  uint8x16_t c = probed(p + 32, apart, first, last), d = probed(p + 48, apart, first, last);
  if (vmaxvq_u8(vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d))) == 0) return 0;
  return gather(a, b, c, d);
}

static inline uint64_t matches (const char *p, char ch) {
  const uint8x16_t x = vdupq_n_u8((uint8_t)ch);
  const uint8_t *u = (const uint8_t *)p;
  return gather(vceqq_u8(vld1q_u8(u), x), vceqq_u8(vld1q_u8(u + 16), x), vceqq_u8(vld1q_u8(u + 32), x),
                vceqq_u8(vld1q_u8(u + 48), x));
}

#define VECTOR uint8x16_t
#define SPREAD(c) vdupq_n_u8((uint8_t)(c))
#include "pl_simd_needle.h"

const pl_simd pl_simd_neon = {"neon", find_needle, read_lines};
#else
typedef int pl_no_neon;
#endif
