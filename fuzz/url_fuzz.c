/* The parts of a URL lie in order inside the input and, with their marks, make it up again; decoding undoes encoding. */
#include <stdlib.h>

#include "pl_url.h"

#define REQUIRE(cond) ((cond) ? (void)0 : abort())

/* The part stands at *at, `before` bytes of marks ahead of it; moves *at behind it. */
static void follows (pl_slice part, size_t before, const char **at) {
  if (part.p == NULL) return;
  REQUIRE(part.p == *at + before);
  *at = part.p + part.n;
}

static void parts (pl_slice s) {
  pl_url u;
  size_t fault = 0;
  const char *at = s.p;
  if (pl_url_split(s, &u, &fault) != PL_OK) {
    REQUIRE(fault <= s.n);
    return;
  }
  follows(u.scheme, 0, &at);
  if (u.scheme.p) at++;
  if (u.host.p) at += 2;
  follows(u.userinfo, 0, &at);
  if (u.userinfo.p) at++;
  follows(u.host, 0, &at);
  follows(u.port, 1, &at);
  follows(u.path, 0, &at);
  follows(u.query, 1, &at);
  follows(u.fragment, 1, &at);
  REQUIRE(at == s.p + s.n && u.path.p != NULL);
}

static void coding (pl_slice s) {
  char *coded = malloc(3 * s.n + 1), *plain = malloc(3 * s.n + 1);
  for (int keep = PL_KEEP_UNRESERVED; keep <= PL_KEEP_FORM; keep++) {
    size_t n = pl_url_encode(s, (pl_url_keep)keep, coded);
    REQUIRE(n <= 3 * s.n);
    n = pl_url_decode((pl_slice){coded, n}, keep == PL_KEEP_FORM, plain);
    REQUIRE(n == s.n && memcmp(plain, s.p, n) == 0);
  }
  REQUIRE(pl_url_decode(s, true, plain) <= s.n);
  free(coded);
  free(plain);
}

static void pairs (pl_slice s) {
  pl_slice rest = s, name, value;
  size_t before = rest.n + 1;
  while (pl_url_pair(&rest, &name, &value)) {
    REQUIRE(rest.n < before && name.p >= s.p && value.p + value.n <= s.p + s.n);
    before = rest.n;
  }
  REQUIRE(rest.n == 0);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t n) {
  char *p = malloc(n + 1); /* exactly n bytes may be read: the sanitizer watches the rest */
  char *exact = n ? realloc(p, n) : p;
  if (n) memcpy(exact, data, n);
  pl_slice s = {exact, n};
  parts(s);
  coding(s);
  pairs(s);
  free(exact);
  return 0;
}
