#include "pl_simd.h"
#include "pl_scan.h"
#include "pl_simd_sets.h"

static const pl_simd portable = {"portable", pl_scan_needle, NULL};

size_t pl_simd_all (const pl_simd *sets[PL_SIMD_MAX]) {
  size_t n = 0;
#if PL_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("bmi2"))
    sets[n++] = &pl_simd_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) sets[n++] = &pl_simd_avx2;
  sets[n++] = &pl_simd_sse2;
#elif PL_NEON
  sets[n++] = &pl_simd_neon;
#endif
  sets[n++] = &portable;
  return n;
}

const pl_simd *pl_simd_best (void) {
  const pl_simd *sets[PL_SIMD_MAX];
  pl_simd_all(sets);
  return sets[0];
}

const pl_simd *pl_simd_named (const char *name) {
  const pl_simd *sets[PL_SIMD_MAX];
  size_t n = pl_simd_all(sets);
  for (size_t i = 0; i < n; i++)
    if (strcmp(sets[i]->name, name) == 0) return sets[i];
  return NULL;
}
