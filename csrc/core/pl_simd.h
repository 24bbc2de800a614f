/* Vector twins of the hot loops, chosen at run time by what the processor has. Each gives what the portable code gives;
   one build works everywhere (target attributes, no compiler flags). */
#ifndef PL_SIMD_H
#define PL_SIMD_H

#include "pl_base.h"

struct pl_head;

typedef struct pl_simd {
  const char *name; /* "portable", "sse2", "avx2", "avx512", "neon" */

  /* pl_scan_needle's contract */
  size_t (*needle) (const char *p, size_t n, pl_slice needle);

  /* Reads whole, valid lines of the head at p from h->line on, as many as it can, and stops before the first that is
     cut off or has anything unusual in it, which pl_head_step then looks at byte by byte. NULL: reads none. */
  void (*lines) (struct pl_head *h, const char *p, size_t n);
} pl_simd;

/* The best set for this processor. */
const pl_simd *pl_simd_best (void);

/* A set by its name, or NULL when this processor or this build has no such set. */
const pl_simd *pl_simd_named (const char *name);

/* All sets that run here, the portable one last; *n is their number. For tests and benchmarks. */
enum { PL_SIMD_MAX = 4 };
size_t pl_simd_all (const pl_simd *sets[PL_SIMD_MAX]);

#endif
