/* The error list as tables, and the two helpers on slices that all others use. */
#include "pl_base.h"

static const struct {
  const char *code, *text;
  int status;
} errors[] = {
    {"", "", 0},
#define PL_ERR_ROW(name, code, status, text) {code, text, status},
    PL_ERRORS(PL_ERR_ROW)
#undef PL_ERR_ROW
};

const char *pl_err_code (pl_err e) { return errors[e].code; }

const char *pl_err_text (pl_err e) { return errors[e].text; }

int pl_err_status (pl_err e) { return errors[e].status; }

static unsigned char lower (char c) {
  unsigned char u = (unsigned char)c;
  return (unsigned char)(u - 'A') < 26 ? u | 0x20 : u;
}

bool pl_ieq (const char *a, size_t n, const char *b, size_t m) {
  if (n != m) return false;
  if (n > 0 && memcmp(a, b, n) == 0) return true; /* most are written in the usual way */
  for (size_t i = 0; i < n; i++)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

static bool blank (char c) { return c == ' ' || c == '\t'; }

pl_slice pl_trim (pl_slice s) {
  while (s.n > 0 && blank(s.p[0])) s.p++, s.n--;
  while (s.n > 0 && blank(s.p[s.n - 1])) s.n--;
  return s;
}
