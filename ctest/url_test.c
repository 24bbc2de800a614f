/* pl_url: each input lies against a page that cannot be read. The rules themselves: spec/url_spec.lua. */
#include "ctest.h"
#include "pl_url.h"

static ct_guard g;

static pl_slice guarded (const char *s) {
  size_t n = strlen(s);
  return (pl_slice){ct_guard_tail(&g, s, n), n};
}

static void parts (void) {
  pl_url u;
  size_t at;
  CHECK_INT(pl_url_split(guarded("http://u:p@h:80/p?q#f"), &u, &at), PL_OK);
  CHECK_STR(u.scheme.p, u.scheme.n, "http");
  CHECK_STR(u.userinfo.p, u.userinfo.n, "u:p");
  CHECK_STR(u.host.p, u.host.n, "h");
  CHECK_STR(u.port.p, u.port.n, "80");
  CHECK_STR(u.path.p, u.path.n, "/p");
  CHECK_STR(u.query.p, u.query.n, "q");
  CHECK_STR(u.fragment.p, u.fragment.n, "f");
  CHECK_INT(pl_url_split(guarded("h:1"), &u, &at), PL_OK); /* a scheme, as the RFC reads it */
  CHECK_STR(u.scheme.p, u.scheme.n, "h");
  CHECK(u.host.p == NULL && u.query.p == NULL && u.fragment.p == NULL);
}

/* Every prefix of a URL is a URL or is refused, without a byte too far. */
static void prefixes (void) {
  static const char *const whole[] = {"http://user@[::1]:65535/a?b#c", "//h:", "http://", "a:b", "http://[", "?#", "%"};
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    for (size_t n = 0; n <= strlen(whole[i]); n++) {
      pl_url u;
      size_t at = 0;
      ct_how("%zu bytes of %s", n, whole[i]);
      pl_err e = pl_url_split((pl_slice){ct_guard_tail(&g, whole[i], n), n}, &u, &at);
      CHECK(e == PL_OK || (e == PL_E_BAD_URL && at <= n));
    }
  }
  ct_how(NULL);
}

static void faults (void) {
  static const struct { const char *s; size_t at; } bad[] = {
      {"http://h/a b", 10}, {"http://h:65536/", 9}, {"http://h:x/", 9}, {"http://[::1/", 7}, {"http://[::1]x/", 12},
      {"http://a\\@h/", 7}, {"\x7f", 0},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    pl_url u;
    size_t at = 99;
    ct_how("%s", bad[i].s);
    CHECK_INT(pl_url_split(guarded(bad[i].s), &u, &at), PL_E_BAD_URL);
    CHECK_INT(at, bad[i].at);
  }
  ct_how(NULL);
}

static void coding (void) {
  char out[64];
  size_t n = pl_url_encode(guarded("a b/%"), PL_KEEP_UNRESERVED, out);
  CHECK_STR(out, n, "a%20b%2F%25");
  n = pl_url_encode(guarded("a b+~"), PL_KEEP_FORM, out);
  CHECK_STR(out, n, "a+b%2B%7E");
  static const char *const coded[] = {"%41%", "%4", "%", "+%2B", ""};
  static const char *const plain[] = {"A%", "%4", "%", " +", ""};
  for (size_t i = 0; i < sizeof coded / sizeof *coded; i++) {
    n = pl_url_decode(guarded(coded[i]), true, out);
    CHECK_MEM(out, n, plain[i], strlen(plain[i]));
  }
}

static void pairs (void) {
  pl_slice rest = guarded("&a=1=2&&b&=c&"), name, value;
  CHECK(pl_url_pair(&rest, &name, &value));
  CHECK_STR(name.p, name.n, "a");
  CHECK_STR(value.p, value.n, "1=2");
  CHECK(pl_url_pair(&rest, &name, &value));
  CHECK_STR(name.p, name.n, "b");
  CHECK_INT(value.n, 0);
  CHECK(pl_url_pair(&rest, &name, &value));
  CHECK_INT(name.n, 0);
  CHECK_STR(value.p, value.n, "c");
  CHECK(!pl_url_pair(&rest, &name, &value));
}

int main (void) {
  ct_guard_open(&g, 256);
  parts();
  prefixes();
  faults();
  coding();
  pairs();
  ct_guard_close(&g);
  return ct_done();
}
