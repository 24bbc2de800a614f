/* pl_base: the error list, comparison without case, trimming. */
#include "ctest.h"
#include "pl_base.h"

static void errors (void) {
  for (int e = PL_OK + 1; e < PL_ERR_COUNT; e++) {
    const char *code = pl_err_code((pl_err)e);
    ct_how("%s", code);
    CHECK(strspn(code, "abcdefghijklmnopqrstuvwxyz-") == strlen(code) && *code);
    CHECK(pl_err_status((pl_err)e) >= 400 && pl_err_status((pl_err)e) < 600);
    CHECK(*pl_err_text((pl_err)e));
    for (int other = e + 1; other < PL_ERR_COUNT; other++) CHECK(strcmp(code, pl_err_code((pl_err)other)) != 0);
  }
  ct_how(NULL);
  CHECK_INT(PL_OK, 0);
  CHECK_INT(pl_err_status(PL_E_HEADER_TOO_LARGE), 431);
  CHECK_INT(pl_err_status(PL_E_UNSUPPORTED_TRANSFER_ENCODING), 501);
  CHECK_INT(pl_err_status(PL_E_URI_TOO_LONG), 414);
}

/* Every pair of bytes: equal only when the same, or the same letter of ASCII. */
static void comparison (void) {
  for (int a = 0; a < 256; a++)
    for (int b = 0; b < 256; b++) {
      char x = (char)a, y = (char)b;
      int u = a >= 'A' && a <= 'Z' ? a + 32 : a, v = b >= 'A' && b <= 'Z' ? b + 32 : b;
      if (pl_ieq(&x, 1, &y, 1) != (u == v)) CHECK_INT(a, b);
    }
  CHECK(PL_IS(((pl_slice){"ChunKed", 7}), "chunked"));
  CHECK(!PL_IS(((pl_slice){"chunked", 6}), "chunked"));
  CHECK(pl_ieq(NULL, 0, NULL, 0));
  CHECK(!pl_ieq(NULL, 0, "a", 1));
}

static void trim (void) {
  static const struct { const char *in, *out; } cases[] = {
      {"", ""}, {" ", ""}, {"\t \t", ""}, {"a", "a"}, {" a", "a"}, {"a\t", "a"}, {" a b ", "a b"},
      {"\va\v", "\va\v"}, {"\r\na", "\r\na"}, {"a\n", "a\n"},
  };
  ct_guard g;
  ct_guard_open(&g, 64);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t n = strlen(cases[i].in);
    ct_how("\"%s\"", cases[i].in);
    pl_slice s = pl_trim((pl_slice){ct_guard_tail(&g, cases[i].in, n), n});
    CHECK_STR(s.p, s.n, cases[i].out);
    s = pl_trim((pl_slice){ct_guard_head(&g, cases[i].in, n), n});
    CHECK_STR(s.p, s.n, cases[i].out);
  }
  ct_how(NULL);
  CHECK_INT(pl_trim((pl_slice){NULL, 0}).n, 0);
  ct_guard_close(&g);
}

int main (void) {
  errors();
  comparison();
  trim();
  return ct_done();
}
