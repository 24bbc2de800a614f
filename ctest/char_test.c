/* pl_char: each class against the characters of its ABNF, written out. */
#include "ctest.h"
#include "pl_char.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static bool in (const char *set, int c) { return c != 0 && strchr(set, c) != NULL; }

static void classes (void) {
  for (int c = 0; c < 256; c++) {
    bool vchar = c >= 0x21 && c <= 0x7e, obs = c >= 0x80, blank = c == ' ' || c == '\t';
    char ch = (char)c;
    ct_how("byte %d", c);
    CHECK_INT(pl_is(ch, PL_TCHAR), in("!#$%&'*+-.^_`|~" DIGITS LETTERS, c));
    CHECK_INT(pl_is(ch, PL_VALUE), vchar || obs || blank);
    CHECK_INT(pl_is(ch, PL_TARGET), vchar || obs);
    CHECK_INT(pl_is(ch, PL_DIGIT), in(DIGITS, c));
    CHECK_INT(pl_is(ch, PL_HEX), in(DIGITS "abcdefABCDEF", c));
    CHECK_INT(pl_is(ch, PL_QDTEXT), blank || obs || (vchar && c != '"' && c != '\\'));
    CHECK_INT(pl_is(ch, PL_ALPHA), in(LETTERS, c));
    CHECK_INT(pl_is(ch, PL_HOST), in("-._~%!$&'()*+;=[]:" DIGITS LETTERS, c));
  }
  ct_how(NULL);
}

static void hex (void) {
  for (int c = 0; c < 256; c++) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    ct_how("byte %d", c);
    CHECK_INT(pl_hex((char)c), at ? at - digits : -1);
  }
  ct_how(NULL);
}

static void span (void) {
  ct_guard g;
  ct_guard_open(&g, 16);
  CHECK_INT(pl_span((pl_slice){NULL, 0}, PL_TCHAR), 0);
  CHECK_INT(pl_span((pl_slice){ct_guard_tail(&g, "abc", 3), 3}, PL_TCHAR), 3);
  CHECK_INT(pl_span((pl_slice){ct_guard_tail(&g, "ab:", 3), 3}, PL_TCHAR), 2);
  CHECK_INT(pl_span((pl_slice){ct_guard_head(&g, ":ab", 3), 3}, PL_TCHAR), 0);
  CHECK_INT(pl_span((pl_slice){ct_guard_tail(&g, "a1-", 3), 3}, PL_ALPHA | PL_DIGIT), 2);
  ct_guard_close(&g);
}

int main (void) {
  classes();
  hex();
  span();
  return ct_done();
}
