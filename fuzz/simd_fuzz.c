/* Invariant: every vector set reads a head and finds a needle exactly as the portable code does, however the bytes are
   aligned, and touches nothing outside of them. */
#include "fuzz.h"
#include "pl_scan.h"
#include "pl_simd.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum { FIELDS = 12 };

static pl_got read_head (pl_head *h, pl_field *field, const pl_simd *set, pl_head_kind kind, const char *p, size_t n) {
  memset(field, 0, sizeof *field * FIELDS);
  pl_head_init(h, kind, (pl_head_limits){4096, FIELDS, 256}, field);
  h->simd = set;
  return pl_head_step(h, p, n);
}

static void same_head (const pl_simd *set, const pl_simd *portable, pl_head_kind kind, const char *p, size_t n) {
  pl_head a, b;
  pl_field x[FIELDS], y[FIELDS];
  pl_got got = read_head(&a, x, set, kind, p, n), want = read_head(&b, y, portable, kind, p, n);
  if (got != want || a.err != b.err || a.err_at != b.err_at) abort();
  if (got == PL_FAIL) return;
  if (a.nfields != b.nfields || a.line != b.line || a.bytes != b.bytes) abort();
  if (kind == PL_REQUEST && got == PL_END && (a.target != b.target || a.target_len != b.target_len)) abort();
  for (uint32_t i = 0; i < a.nfields; i++)
    if (x[i].name != y[i].name || x[i].name_len != y[i].name_len || x[i].value != y[i].value ||
        x[i].value_len != y[i].value_len || x[i].id != y[i].id || x[i].folded != y[i].folded)
      abort();
}

static void same_needle (const pl_simd *set, const char *p, size_t n) {
  static const char boundary[] = "\r\n--fuzz-boundary";
  pl_slice needle = {boundary, 5 + (n % (sizeof boundary - 5))};
  if (set->needle(p, n, needle) != pl_scan_needle(p, n, needle)) abort();
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  static const pl_head_kind kinds[] = {PL_REQUEST, PL_RESPONSE, PL_TRAILER, PL_PART_HEAD};
  if (size < 2) return 0;
  const pl_simd *sets[PL_SIMD_MAX];
  size_t count = pl_simd_all(sets), n = size - 2, shift = data[1] % 64;
  char *bytes = malloc(n + shift + !(n + shift)); /* exactly as long as the input: a byte too far is seen */
  memcpy(bytes + shift, data + 2, n);
  for (size_t i = 0; i + 1 < count; i++) {
    same_head(sets[i], sets[count - 1], kinds[data[0] % 4], bytes + shift, n);
    same_needle(sets[i], bytes + shift, n);
  }
  free(bytes);
  return 0;
}
