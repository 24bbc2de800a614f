/* pl_mpart: RFC 2046 5.1 and RFC 7578 at every cut; what is a delimiter and what is not; the error and its offset. */
#include "cuts.h"
#include "codecs.h"

static rooms where;
static mpart_codec mpart = {.boundary = "b", .is_form = true, .max = {3}, .head_max = {100, 3, 0}};
static const cuts_codec codec = {mpart_feed, &mpart, mpart_start, &where};

#define CD "Content-Disposition: form-data; "
#define PART(name) "--b\r\n" CD "name=" name "\r\n\r\n"
#define GOT(name) "<part " name "|nil|nil|Content-Disposition=form-data; name=" name "|>"

/* "$" in want: the length of the input. */
typedef struct mpart_case { const char *in, *want; } mpart_case;

static const mpart_case form[] = {
    /* bodies */
    {"--b--\r\n", "<end 5>"},
    {"--b--", "<end $>"},
    {"--b--junk", "<end 5>"},
    {PART("a") "hello\r\n--b--\r\n", GOT("a") "hello<part end><end 59>"},
    {PART("a") "hello\r\n--b--", GOT("a") "hello<part end><end $>"},
    {PART("a") "1\r\n" PART("c") "2\r\n--b--epilogue\r\n--b\r\n",
     GOT("a") "1<part end>" GOT("c") "2<part end><end 105>"},
    {PART("a") "\r\n--b--", GOT("a") "<part end><end $>"},
    {PART("a") "--b--", GOT("a") "<part end><end $>"}, /* the blank line's CRLF serves the delimiter */
    {PART("a") PART("c") "x\r\n--b--", GOT("a") "<part end>" GOT("c") "x<part end><end $>"},
    {PART("a") "\r\n\r\n--b--", GOT("a") "\r\n<part end><end $>"},
    {PART("a") "x\r\r\n--b--", GOT("a") "x\r<part end><end $>"},
    {PART("a") "x\n\r\n--b--", GOT("a") "x\n<part end><end $>"},
    {PART("a") "x\r\n-\r\n--\r\n--\r\n--b--", GOT("a") "x\r\n-\r\n--\r\n--<part end><end $>"},
    /* looks like a delimiter and is content */
    {PART("a") "--bb\r\n--b--", GOT("a") "--bb<part end><end $>"},
    {PART("a") "x--b\r\n--b--", GOT("a") "x--b<part end><end $>"},
    {PART("a") "x\r\n--bx\r\n--b--", GOT("a") "x\r\n--bx<part end><end $>"},
    {PART("a") "x\r\n--b-x\r\n--b--", GOT("a") "x\r\n--b-x<part end><end $>"},
    {PART("a") "x\r\n--b -\r\n--b--", GOT("a") "x\r\n--b -<part end><end $>"},
    {PART("a") "x\r\n--b\rx\r\n--b--", GOT("a") "x\r\n--b\rx<part end><end $>"},
    {PART("a") "x\r\n--b\r\r\n--b--", GOT("a") "x\r\n--b\r<part end><end $>"},
    {PART("a") "x\r\n--b\n\r\n--b--", GOT("a") "x\r\n--b\n<part end><end $>"},
    {PART("a") "x\n--b\r\n\r\n--b--", GOT("a") "x\n--b\r\n<part end><end $>"},
    {PART("a") "x\r\n--B\r\n--b--", GOT("a") "x\r\n--B<part end><end $>"},
    {PART("a") "x\r\n --b\r\n--b--", GOT("a") "x\r\n --b<part end><end $>"},
    {PART("a") "x\r\n--b\r\n--b--", GOT("a") "x<part end><fail unexpected-eof $>"}, /* the beginning of a field name */
    /* white space behind a delimiter */
    {"--b \t\r\n" CD "name=a\r\n\r\nx\r\n--b\t --", GOT("a") "x\r\n--b\t --<fail unexpected-eof $>"},
    {"--b \t\r\n" CD "name=a\r\n\r\nx\r\n--b--\t ", GOT("a") "x<part end><end 57>"},
    /* preamble */
    {"\r\n--b--", "<end $>"},
    {"\r\n\r\n--b--", "<end $>"},
    {"x\r\n--b--", "<end $>"},
    {"see --b\r\n--b--", "<end $>"},
    {"--b x\r\n--b--", "<end $>"},
    {"--bb\r\n--b-\r\n--b--", "<end $>"},
    {"--\r\n\r\r\n--b--", "<end $>"},
    {"x\r\n--bx--b\r\n--b--", "<end $>"},
    {"x\r\n" PART("a") "1\r\n--b--", GOT("a") "1<part end><end $>"},
    /* no first delimiter */
    {"x", "<fail bad-first-boundary 1>"},
    {"x\r\n", "<fail bad-first-boundary 3>"},
    {"x--b--", "<fail bad-first-boundary 6>"},
    {"--B--\r\n", "<fail bad-first-boundary 7>"},
    {"x\n--c", "<fail bad-first-boundary 5>"},
    {"--bb\r\n", "<fail bad-first-boundary 6>"},
    {"", "<fail unexpected-eof $>"},
    {"--", "<fail unexpected-eof $>"},
    {"--b", "<fail unexpected-eof $>"},
    {"--b \r", "<fail unexpected-eof $>"},
    {"x\r\n--", "<fail unexpected-eof $>"},
    {"x\r\n--b", "<fail unexpected-eof $>"},
    {"x\r\n--b-", "<fail unexpected-eof $>"},
    {"x\n--b", "<fail unexpected-eof $>"},
    /* lines that end in a bare LF */
    {"--b\n" CD "name=a\n\nx\n--b--\n", "<fail bad-line-ending 3>"},
    {"--b \nx", "<fail bad-line-ending 4>"},
    {"x\n--b\n", "<fail bad-line-ending 1>"},
    {"x\n--b\r\n", "<fail bad-line-ending 1>"},
    {"x\n--b--", "<fail bad-line-ending 1>"},
    {"\n--b--", "<fail bad-line-ending 0>"},
    {"x\r\n--b\n", "<fail bad-line-ending 6>"},
    {"--b\r\n" CD "name=a\n\r\nx", "<fail bad-line-ending 43>"},
    /* heads */
    {"--b\r\nContent-Disposition:form-data;\r\n\tname=\"a\"\r\n\r\n--b--",
     "<part a|nil|nil|Content-Disposition=form-data; name=\"a\"|><part end><end $>"},
    {"--b\r\n" CD "name=\"a\r\n b\"\r\n\r\n--b--",
     "<part a b|nil|nil|Content-Disposition=form-data; name=\"a b\"|><part end><end $>"},
    {"--b\r\n" CD "name=\"a\"; filename=\"\"; filename*=utf-8''x\r\n\r\n--b--",
     "<part a||utf-8''x|Content-Disposition=form-data; name=\"a\"; filename=\"\"; filename*=utf-8''x|>"
     "<part end><end $>"},
    {"--b\r\n\r\n", "<fail missing-disposition 5>"},
    {"--b\r\nX: y\r\n\r\n", "<fail missing-disposition 5>"},
    {"--b\r\nX: y\r\nContent-Disposition: file; name=a\r\n\r\n", "<fail bad-disposition 11>"},
    {"--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", "<fail bad-disposition 5>"},
    {"--b\r\n" CD "name=a\r\n" CD "name=c\r\n\r\n", "<fail bad-disposition 45>"},
    {"--b\r\n" CD "filename=a\r\n\r\n", "<fail missing-name 5>"},
    {"--b\r\n" CD "\r\n\r\n", "<fail missing-name 5>"},
    {"--b\r\n X: y\r\n\r\n", "<fail bad-header 5>"},
    {"--b\r\nX : y\r\n\r\n", "<fail bad-header 6>"},
    {"--b\r\nX\r\n\r\n", "<fail bad-header 6>"},
    {"--b\r\nX: \x01\r\n\r\n", "<fail bad-header 8>"},
    {"--b\r\nX: y\r\n \x01\r\n\r\n", "<fail bad-header 12>"},
    {"--b\r\n: y\r\n\r\n", "<fail bad-header 5>"},
    {"--b\r\nA:1\r\nB:2\r\nC:3\r\nD:4\r\n\r\n", "<fail header-too-large 20>"},
    /* cut off */
    {"--b\r\n", "<fail unexpected-eof $>"},
    {"--b\r\n" CD, "<fail unexpected-eof $>"},
    {PART("a"), GOT("a") "<fail unexpected-eof $>"},
    {PART("a") "--b", GOT("a") "<fail unexpected-eof $>"},
    {PART("a") "x", GOT("a") "x<fail unexpected-eof $>"},
    {PART("a") "x\r", GOT("a") "x<fail unexpected-eof $>"},
    {PART("a") "x\r\n--b", GOT("a") "x<fail unexpected-eof $>"},
    {PART("a") "x\r\n--b-", GOT("a") "x<fail unexpected-eof $>"},
    {PART("a") "x\r\n--b  \r", GOT("a") "x<fail unexpected-eof $>"},
    {PART("a") "x\r\n--b\r\n", GOT("a") "x<part end><fail unexpected-eof $>"},
    /* parts: 3 at most */
    {PART("a") PART("a") PART("a") "--b--",
     GOT("a") "<part end>" GOT("a") "<part end>" GOT("a") "<part end><end $>"},
    {PART("a") PART("a") PART("a") PART("a") "--b--",
     GOT("a") "<part end>" GOT("a") "<part end>" GOT("a") "<part end><fail too-many-parts 146>"},
};

static const mpart_case mixed[] = { /* no form: a disposition is not needed, a bad one is as good as none */
    {"--b\r\n\r\nx\r\n--b--", "<part nil|nil|nil|>x<part end><end $>"},
    {"--b\r\n\r\n\r\n--b--", "<part nil|nil|nil|><part end><end $>"},
    {"--b\r\n\r\n--b--", "<part nil|nil|nil|><part end><end $>"},
    {"--b\r\nContent-Disposition: attachment; filename=f\r\n\r\nx\r\n--b--",
     "<part nil|f|nil|Content-Disposition=attachment; filename=f|>x<part end><end $>"},
    {"--b\r\nContent-Disposition: attachment; filename=f; x=\"\r\n\r\nx\r\n--b--",
     "<part nil|nil|nil|Content-Disposition=attachment; filename=f; x=\"|>x<part end><end $>"},
};

static void answer (const mpart_case *c) {
  trace want = {0};
  size_t n = strlen(c->in), dollar = strcspn(c->want, "$");
  trace_bytes(&want, c->want, dollar);
  if (c->want[dollar]) trace_add(&want, "%zu%s", n, c->want + dollar + 1);
  cuts_all(&codec, c->in, n, want.p, SIZE_MAX);
  trace_free(&want);
}

static void answers (void) {
  mpart.is_form = true;
  for (size_t i = 0; i < sizeof form / sizeof *form; i++) answer(&form[i]);
  mpart.is_form = false;
  for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) answer(&mixed[i]);
  mpart.is_form = true;
}

static void truncated (void) {
  static const char in[] = "pre\r\n" PART("a") "1\r\n" PART("c") "2\r\n\r\n--b--";
  cuts_truncated(&codec, in, sizeof in - 1);
}

#define EMPTY "<part nil|nil|nil|>"

/* White space behind a delimiter: 128 bytes make a delimiter line, 129 content. */
static void padding (void) {
  for (size_t n = PL_PADDING_MAX; n <= PL_PADDING_MAX + 1; n++) {
    trace in = {0}, want = {0};
    char *blanks = repeat(n % 2 ? '\t' : ' ', n);
    trace_add(&in, "--b%s\r\n\r\nx\r\n--b--", blanks);
    mpart.is_form = false;
    if (n == PL_PADDING_MAX) trace_add(&want, "<part nil|nil|nil|>x<part end><end %zu>", in.n);
    else trace_add(&want, "<end %zu>", in.n); /* preamble */
    cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
    trace_clear(&in);
    trace_clear(&want);
    trace_add(&in, "--b\r\n\r\nx\r\n--b%s\r\n\r\n--b--", blanks);
    if (n == PL_PADDING_MAX) trace_add(&want, EMPTY "x<part end>" EMPTY "<part end><end %zu>", in.n);
    else trace_add(&want, "<part nil|nil|nil|>x\r\n--b%s\r\n<part end><end %zu>", blanks, in.n);
    cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
    mpart.is_form = true;
    free(blanks);
    trace_free(&in);
    trace_free(&want);
  }
}

/* The head of a part: 100 bytes with its blank line. */
static void head_bytes (void) {
  for (size_t n = 100; n <= 101; n++) {
    trace in = {0}, want = {0};
    char *fill = repeat('v', n - 40 - 2 - 4);
    trace_add(&in, "--b\r\n" CD "name=a\r\nX:%s\r\n\r\n--b--", fill);
    trace_add(&want, "<part a|nil|nil|Content-Disposition=form-data; name=a|X=%s|><part end><end %zu>", fill, in.n);
    if (n > 100) trace_clear(&want), trace_add(&want, "<fail header-too-large 105>");
    cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
    free(fill);
    trace_free(&in);
    trace_free(&want);
  }
}

static void long_boundary (void) {
  char *y = repeat('y', 70);
  trace in = {0}, want = {0};
  trace_add(&in, "pre\r\n--%s\r\n" CD "name=a\r\n\r\n", y);
  y[69] = '\0'; /* content that is all of the boundary but its last byte */
  trace_add(&in, "\r\n--%s\r\n--%s", y, y);
  trace_add(&want, GOT("a") "\r\n--%s\r\n--%s<part end><end ", y, y);
  y[69] = 'y';
  trace_add(&in, "\r\n--%s--", y);
  trace_add(&want, "%zu>", in.n);
  mpart.boundary = y;
  cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
  mpart.boundary = "b";
  free(y);
  trace_free(&in);
  trace_free(&want);
}

/* Long runs of what begins a delimiter, in pieces: all of it comes out again, and no more is held than promised.
   "B" stands for the boundary. */
static void runs (const char *boundary) {
  static const char *const units[] = {"\r", "\n", "-", "\r\n", "\r\n-", "\r\n--", "\r\n--B  -", "\r\n--B\r",
                                      "\r\n--B-"};
  mpart.boundary = boundary;
  mpart.is_form = false;
  for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
    trace in = {0}, want = {0};
    size_t at = strcspn(units[u], "B");
    trace_add(&in, "--%s\r\n\r\n", boundary);
    trace_add(&want, EMPTY);
    for (int i = 0; i < 500; i++) {
      size_t before = in.n;
      trace_bytes(&in, units[u], at);
      if (units[u][at]) trace_add(&in, "%s%s", boundary, units[u] + at + 1);
      trace_bytes(&want, in.p + before, in.n - before);
    }
    trace_add(&in, "x\r\n--%s--", boundary);
    trace_add(&want, "x<part end><end %zu>", in.n);
    cuts_some(&codec, in.p, in.n, want.p);
    trace_free(&in);
    trace_free(&want);
  }
  mpart.boundary = "b";
  mpart.is_form = true;
}

/* A preamble that never ends is skipped as it comes. */
static void endless_preamble (void) {
  size_t used, n = 1 << 16;
  pl_slice data;
  char *block = repeat('\r', n);
  mpart_start(&mpart);
  for (size_t i = 0; i + 1 < n; i += 2) block[i + 1] = i % 6 ? '\n' : '-';
  for (int i = 0; i < 100; i++) {
    CHECK_INT(pl_mpart_step(&mpart.m, block, n, false, &used, &data), PL_MORE);
    CHECK(n - used < 8);
    memmove(block, block + used, n - used);
    memset(block + n - used, '-', used);
  }
  free(block);
}

static void nothing (void) {
  size_t used = 1;
  pl_slice data;
  mpart_start(&mpart);
  CHECK_INT(pl_mpart_step(&mpart.m, NULL, 0, false, &used, &data), PL_MORE);
  CHECK_INT(used, 0);
  CHECK_INT(pl_mpart_step(&mpart.m, "x", 1, false, &used, &data), PL_MORE);
  CHECK_INT(pl_mpart_step(&mpart.m, NULL, 0, false, &used, &data), PL_MORE);
  CHECK_INT(pl_mpart_step(&mpart.m, NULL, 0, true, &used, &data), PL_FAIL);
  mpart_start(&mpart);
  CHECK_INT(pl_mpart_step(&mpart.m, NULL, 0, true, &used, &data), PL_FAIL);
  CHECK_INT(mpart.m.err, PL_E_UNEXPECTED_EOF);
}

/* The same answers from every vector set that runs here. */
static void sets (void) {
  const pl_simd *set[PL_SIMD_MAX];
  size_t n = pl_simd_all(set);
  for (size_t i = 0; i < n; i++) {
    mpart.simd = set[i];
    answers();
    truncated();
    padding();
    head_bytes();
    long_boundary();
    runs("b");
    runs("------WebKitFormBoundary0");
  }
  mpart.simd = NULL;
}

int main (void) {
  rooms_open(&where, 1 << 16);
  sets();
  endless_preamble();
  nothing();
  rooms_close(&where);
  return ct_done();
}
