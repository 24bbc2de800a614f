/* pl_param: parameters of a value (RFC 2045, 6266, 7578, 8187), quoting, boundary=. */
#include "ctest.h"
#include "pl_param.h"

static ct_guard guard;

static pl_slice lay (const char *s) { return (pl_slice){ct_guard_tail(&guard, s, strlen(s)), strlen(s)}; }

static void put (char *to, size_t room, const char *from, size_t n) {
  size_t at = strlen(to);
  if (at + n + 1 > room) exit(2);
  memcpy(to + at, from, n);
  to[at + n] = '\0';
}
#define PUT(to, s) put(to, sizeof to, (s).p, (s).n)
#define PUTS(to, lit) put(to, sizeof to, lit, strlen(lit))

/* word|name=value|name="value"|... and ! where it is malformed. */
static void list (const char *in, const char *want) {
  char got[512] = "";
  pl_params it;
  pl_param v;
  int answer, budget = 64;
  ct_how("\"%s\"", ct_show(0, in, strlen(in)));
  pl_slice word = pl_params_begin(&it, lay(in));
  PUT(got, word);
  while ((answer = pl_params_next(&it, &v)) == 1 && budget-- > 0) {
    PUTS(got, "|");
    PUT(got, v.name);
    PUTS(got, v.quoted ? "=\"" : "=");
    PUT(got, v.value);
    if (v.quoted) PUTS(got, "\"");
  }
  if (answer < 0) PUTS(got, "!");
  CHECK(budget > 0);
  CHECK_STR(got, strlen(got), want);
  ct_how(NULL);
}

static void lists (void) {
  list("", "");
  list("a", "a");
  list(" a ", "a");
  list("a;", "a");
  list("a; ;; ;", "a");
  list("a;b=c", "a|b=c");
  list("a ; b=c ; d=e ", "a|b=c|d=e");
  list("a;b", "a|b=");
  list("a;b=", "a|b=");
  list("a;b=;c=", "a|b=|c=");
  list("a;=b", "a|=b");
  list("a;b=c=d", "a|b=c=d");
  list("a;b=c d", "a|b=c d");
  list("a;b=\"c\"", "a|b=\"c\"");
  list("a;b=\"\"", "a|b=\"\"");
  list("a;b=\"c;d=e\"; f=g", "a|b=\"c;d=e\"|f=g");
  list("a;b=\"c\\\"d\"", "a|b=\"c\\\"d\"");
  list("a;b=\"c\\d\"", "a|b=\"c\\d\"");
  list("a;b=\"c\\\\\"d\"", "a|b=\"c\\\\\"d\""); /* the second backslash belongs to the quote: browsers double none */
  list("a; b = c", "a|b=c");
  list("a; b = \"c\" ;d=e", "a|b=\"c\"|d=e");
  list("a;\r\n b=\r\n \"c\"\r\n ;d=e", "a|b=\"c\"|d=e");
  list("a;b=\"c", "a!");
  list("a;b=\"", "a!");
  list("a;b=\"c\\\"", "a!");
  list("a;b=\"c\"d", "a!");
  list("a;b=\"c\" d;e=f", "a!");
  list("a;b=c\"d\"", "a!");
  list("a;b=c\"", "a!");
  list("a;\"b\"=c", "a!");
  list("a;\"b\"", "a!");
  list("a;\"b;c\"", "a!");
  list("a;x=y;b=\"c", "a|x=y!");
  list(";b=c", "|b=c");
  list("a b;c=d", "a b|c=d");
}

static void text (const char *in, bool quoted, bool percent, const char *want) {
  char out[128];
  pl_param v = {{"x", 1}, lay(in), quoted};
  ct_how("\"%s\"%s%s", ct_show(0, in, strlen(in)), quoted ? " quoted" : "", percent ? " percent" : "");
  CHECK_STR(out, pl_param_text(&v, percent, out), want);
  ct_how(NULL);
}

static void texts (void) {
  text("", true, true, "");
  text("a b", true, true, "a b");
  text("10\\\"20", true, true, "10\"20");
  text("10\\\"20", false, true, "10\\\"20");
  text("C:\\new\\\\x\\", true, true, "C:\\new\\\\x\\");
  text("\\\\\"", true, true, "\\\"");
  text("%22%0D%0A", true, true, "\"\r\n");
  text("%22%0D%0A", false, true, "\"\r\n");
  text("%22%0D%0A", true, false, "%22%0D%0A");
  text("%0d%0a%20%25%2", true, true, "%0d%0a%20%25%2");
  text("%", true, true, "%");
  text("%2", true, true, "%2");
  text("%%22", true, true, "%\"");
  text("%2522", true, true, "%2522");
  text("\\%22", true, true, "\\\"");
  text("a\r\n b\r\n\t%22", true, true, "a b \"");
  text("\xe6\xb1\x89\xff", true, true, "\xe6\xb1\x89\xff");
}

static void ext (const char *in, const char *want) {
  char out[128];
  ct_how("\"%s\"", ct_show(0, in, strlen(in)));
  size_t n = pl_param_ext(lay(in), out);
  if (want == NULL) CHECK(n == SIZE_MAX);
  else if (CHECK(n != SIZE_MAX)) CHECK_STR(out, n, want);
  ct_how(NULL);
}

static void exts (void) {
  ext("UTF-8''a", "a");
  ext("utf-8'en'a%20b", "a b");
  ext("UTF-8''", "");
  ext("UTF-8''%e2%82%AC!#$&+-.^_`|~", "\xe2\x82\xac!#$&+-.^_`|~");
  ext("iso-8859-1''%A3%e4x", "\xc2\xa3\xc3\xa4x");
  ext("ISO-8859-1''%ff", "\xc3\xbf");
  ext("UTF-8''%f0%90%80%80%f4%8f%bf%bf%ed%9f%bf%ee%80%80%c2%80%df%bf%e0%a0%80",
      "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xc2\x80\xdf\xbf\xe0\xa0\x80");
  static const char *const bad[] = {
      "", "a", "UTF-8", "UTF-8'", "UTF-8'a", "''a", "latin1''a", "UTF-16''a", "UTF-8''a b", "UTF-8''a'b", "UTF-8''a*",
      "UTF-8''%", "UTF-8''%2", "UTF-8''%zz", "UTF-8''%2g", "UTF-8''a\"", "UTF-8''\xc3\xa4", "iso-8859-1''\xe4",
      /* not UTF-8: alone, cut off, overlong, surrogates, too high */
      "UTF-8''%80", "UTF-8''%bf", "UTF-8''%c3", "UTF-8''%c3a", "UTF-8''%e2%82", "UTF-8''%f0%90%80",
      "UTF-8''%c0%80", "UTF-8''%c1%bf", "UTF-8''%e0%9f%bf", "UTF-8''%f0%8f%bf%bf", "UTF-8''%ed%a0%80",
      "UTF-8''%ed%bf%bf", "UTF-8''%f4%90%80%80", "UTF-8''%f5%80%80%80", "UTF-8''%ff", "UTF-8''%fe",
      "UTF-8''%e2%28%a1",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ext(bad[i], NULL);
  char out[1];
  CHECK(pl_param_ext((pl_slice){NULL, 0}, out) == SIZE_MAX);
}

/* type|name|filename|filename* as they stand, "-" for what is absent. */
static void disposition (const char *in, const char *want) {
  char got[256] = "";
  pl_disposition d;
  ct_how("\"%s\"", ct_show(0, in, strlen(in)));
  pl_err e = pl_disposition_read(lay(in), &d);
  if (e) PUTS(got, pl_err_code(e));
  else {
    const pl_param *all[] = {&d.name, &d.filename, &d.filename_ext};
    PUT(got, d.type);
    for (int i = 0; i < 3; i++) {
      PUTS(got, "|");
      if (all[i]->value.p) PUT(got, all[i]->value);
      else PUTS(got, "-");
    }
  }
  CHECK_STR(got, strlen(got), want);
  ct_how(NULL);
}

static void dispositions (void) {
  disposition("form-data", "form-data|-|-|-");
  disposition("form-data; name=\"a\"", "form-data|a|-|-");
  disposition("Form-Data;NAME=a;FileName=\"\"", "Form-Data|a||-");
  disposition("form-data; name=\"f\"; filename=\"s\"; filename*=UTF-8''t", "form-data|f|s|UTF-8''t");
  disposition("form-data; filename*=t; name=f", "form-data|f|-|t");
  disposition("form-data; namex=\"b\"; name=\"a\"", "form-data|a|-|-");
  disposition("form-data; name*=x; name=\"a\"", "form-data|a|-|-");
  disposition("form-data; filename*0=x; name=a", "form-data|a|-|-");
  disposition("form-data; note=\"x; filename=evil \"; filename=\"safe\"", "form-data|-|safe|-");
  disposition("form-data; name=\"a\";; filename=; ", "form-data|a||-");
  disposition("form-data; name=           \"test\"", "form-data|test|-|-");
  disposition("form-data; name", "form-data||-|-");
  disposition("attachment; filename=f", "attachment|-|f|-");
  disposition("", "bad-disposition");
  disposition("; name=a", "bad-disposition");
  disposition("form data; name=a", "bad-disposition");
  disposition("form-data, x; name=a", "bad-disposition");
  disposition("\"form-data\"; name=a", "bad-disposition");
  disposition("form-data; name=a; name=b", "bad-disposition");
  disposition("form-data; name=; name=", "bad-disposition");
  disposition("form-data; name=a; NAME=a", "bad-disposition");
  disposition("form-data; filename=a; filename=b", "bad-disposition");
  disposition("form-data; filename*=a; filename*=b", "bad-disposition");
  disposition("form-data; name=\"a", "bad-disposition");
  disposition("form-data; name=\"a\"b", "bad-disposition");
  disposition("form-data; name=\"a\"; x=\"", "bad-disposition");
}

static void boundary_max (const char *in, size_t max, const char *want) {
  char got[512] = "";
  pl_slice b;
  bool form = false;
  ct_how("\"%s\"", ct_show(0, in, strlen(in)));
  pl_err e = pl_boundary_read(lay(in), max, &b, &form);
  if (e) PUTS(got, pl_err_code(e));
  else {
    PUTS(got, form ? "form " : "");
    PUT(got, b);
  }
  CHECK_STR(got, strlen(got), want);
  ct_how(NULL);
}
static void boundary (const char *in, const char *want) { boundary_max(in, 70, want); }

static void boundaries (void) {
  char in[512], want[512];
  boundary("multipart/form-data; boundary=b", "form b");
  boundary("Multipart/Form-Data;BOUNDARY=b", "form b");
  boundary("multipart/mixed; boundary=\"b c\"", "b c");
  boundary("multipart/form-data;boundary=\"t\";x=1", "form t");
  boundary("multipart/form-data; charset=x; boundary=b", "form b");
  boundary("multipart/form-data; boundary===17==", "form ==17==");
  boundary("multipart/form-data; boundary=\"(a+b).c-d?\"", "form (a+b).c-d?");
  boundary("multipart/form-data; boundary=*****", "form *****");
  boundary("multipart/form-data; boundary=a\\b", "form a\\b"); /* in quotes it may be an escape */
  boundary("multipart/form-data; boundary=\\/\\/", "form \\/\\/");
  boundary("multipart/form-data ; boundary = b ", "form b");
  boundary("multipart/form-datax; boundary=b", "b");
  boundary("multipart/x.y+z; boundary=b", "b");
  boundary("multipart/form-data", "no-boundary");
  boundary("multipart/form-data; boundary=", "no-boundary");
  boundary("multipart/form-data; boundary=\"\"", "no-boundary");
  boundary("multipart/form-data; boundary", "no-boundary");
  boundary("multipart/form-data; xboundary=b", "no-boundary");
  boundary("multipart/form-data; boundary=a; boundary=a", "duplicate-boundary");
  boundary("multipart/form-data; boundary=; boundary=a", "duplicate-boundary");
  boundary("multipart/form-data; boundary=a, multipart/form-data; boundary=b", "duplicate-boundary");
  boundary("multipart/form-data; boundary=\"b \"", "invalid-boundary");
  boundary("multipart/form-data; boundary=\"a\tb\"", "invalid-boundary");
  boundary("multipart/form-data; boundary=\"a\r\n b\"", "invalid-boundary");
  boundary("multipart/form-data; boundary=\"a\\\"b\"", "invalid-boundary");
  boundary("multipart/form-data; boundary=\"a\\b\"", "invalid-boundary");
  boundary("multipart/form-data; boundary=b\xc3\xa4", "invalid-boundary");
  boundary("multipart/form-data; boundary=b\x7f", "invalid-boundary");
  boundary("multipart/form-data; boundary=\"b", "bad-content-type");
  boundary("multipart/form-data; boundary=\"b\"c", "bad-content-type");
  boundary("multipart/form-data; boundary=b; x=\"", "bad-content-type");
  boundary("multipart/; boundary=b", "bad-content-type");
  boundary("multipart; boundary=b", "bad-content-type");
  boundary("multipart/a b; boundary=b", "bad-content-type");
  boundary("multipart/a/b; boundary=b", "bad-content-type");
  boundary("text/plain; boundary=b", "bad-content-type");
  boundary("xmultipart/mixed; boundary=b", "bad-content-type");
  boundary("", "bad-content-type");
  for (int n = 70; n <= 71; n++) {
    snprintf(in, sizeof in, "multipart/mixed; boundary=%0*d", n, 7);
    snprintf(want, sizeof want, n == 70 ? "%0*d" : "boundary-too-long", n, 7);
    boundary(in, want);
  }
  snprintf(in, sizeof in, "multipart/mixed; boundary=%0200d", 7);
  snprintf(want, sizeof want, "%0200d", 7);
  boundary_max(in, 200, want);
  boundary_max(in, 199, "boundary-too-long");
}

static void kinds (void) {
  CHECK(pl_is_multipart(lay("multipart/x")));
  CHECK(pl_is_multipart(lay("MULTIPART/form-data; boundary=b")));
  CHECK(!pl_is_multipart(lay("multipart/")));
  CHECK(!pl_is_multipart(lay("multipart")));
  CHECK(!pl_is_multipart(lay("text/plain")));
  CHECK(!pl_is_multipart((pl_slice){NULL, 0}));
}

int main (void) {
  ct_guard_open(&guard, 1024);
  lists();
  texts();
  exts();
  dispositions();
  boundaries();
  kinds();
  ct_guard_close(&guard);
  return ct_done();
}
