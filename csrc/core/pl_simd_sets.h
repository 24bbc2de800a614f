/* Which vector sets this build has, and what they make of a block; for the pl_simd*.c files alone. */
#ifndef PL_SIMD_SETS_H
#define PL_SIMD_SETS_H

#include "pl_simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define PL_X86 1
extern const pl_simd pl_simd_avx512, pl_simd_avx2, pl_simd_sse2;
#else
#define PL_X86 0
#endif

#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#define PL_NEON 1
extern const pl_simd pl_simd_neon;
#else
#define PL_NEON 0
#endif

/* One bit for each of 64 bytes; pl_simd_lines.h says which. */
typedef struct masks {
  uint64_t lf, odd, nontoken;
} masks;

#endif
