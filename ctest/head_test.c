/* pl_head: start lines and field lines at every cut; the error and its offset; the limits; folds. */
#include "cuts.h"
#include "codecs.h"

static rooms where;
static head_codec head = {.max = {128, 4, 16}};
static const cuts_codec codec = {head_feed, &head, head_start, &where};

typedef struct head_case { const char *in, *want; } head_case;

#define LINE "GET / HTTP/1.1\r\n"     /* 16 bytes */
#define GOT "<GET / 1.1|"
#define STATUS "HTTP/1.1 200 OK\r\n"  /* 17 bytes */
#define REPLY "<1.1 200 OK|"

static const head_case request[] = {
    {LINE "\r\n", GOT "end 18>"},
    {LINE "\r\nbody", GOT "end 18>"},
    {LINE "Host: a\r\nX-Y:\t b c \t\r\n\r\n", GOT "Host=a|X-Y=b c|end 40>"},
    {LINE "a:\r\nb: \r\nC:\xff\x80\r\n\r\n", GOT "a=|b=|C=\xff\x80|end 33>"},
    {LINE "!#$%&'*+-.^_`|~09azAZ: \"(),/:;<=>?@[\\]{}\r\n\r\n",
     GOT "!#$%&'*+-.^_`|~09azAZ=\"(),/:;<<=>?@[\\]{}|end 60>"},
    {"a-b.c *?a=b#%\xff HTTP/1.0\r\n\r\n", "<a-b.c *?a=b#%\xff 1.0|end 27>"},
    {"OPTIONS * HTTP/1.9\r\n\r\n", "<OPTIONS * 1.9|end 22>"},
    {"\r\n\r\n" LINE "\r\n", GOT "end 22>"},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n" LINE "\r\n", GOT "end 34>"},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n" LINE "\r\n", "<fail bad-request-line 16>"},
    /* start line */
    {" GET / HTTP/1.1\r\n", "<fail bad-request-line 0>"},
    {"\tGET / HTTP/1.1\r\n", "<fail bad-request-line 0>"},
    {"\rGET / HTTP/1.1\r\n", "<fail bad-request-line 0>"},
    {"\n" LINE "\r\n", "<fail bad-line-ending 0>"},
    {"\x16\x03\x01\x02", "<fail bad-request-line 0>"},
    {"GET\r\n", "<fail bad-request-line 3>"},
    {"GET \r\n", "<fail bad-request-line 4>"},
    {"GET /\r\n", "<fail bad-request-line 5>"},
    {"GET / \r\n", "<fail bad-request-line 6>"},
    {"GET  / HTTP/1.1\r\n", "<fail bad-request-line 4>"},
    {"GET /  HTTP/1.1\r\n", "<fail bad-request-line 6>"},
    {"GET\t/ HTTP/1.1\r\n", "<fail bad-request-line 3>"},
    {"G=T / HTTP/1.1\r\n", "<fail bad-request-line 1>"},
    {"G(T / HTTP/1.1\r\n", "<fail bad-request-line 1>"},
    {"GET /\t HTTP/1.1\r\n", "<fail bad-request-target 5>"},
    {"GET /\x7f HTTP/1.1\r\n", "<fail bad-request-target 5>"},
    {"GET /\x01 HTTP/1.1\r\n", "<fail bad-request-target 5>"},
    {"GET / http/1.1\r\n", "<fail bad-request-line 6>"},
    {"GET / HTTP\r\n", "<fail bad-request-line 6>"},
    {"GET / HTTX/1.1\r\n", "<fail bad-request-line 6>"},
    {"GET / HTTP/\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1,1\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/2.0\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/0.9\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1.10\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/11.1\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1.1 \r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1.1 x\r\n", "<fail bad-version 11>"},
    {"GET / HTTP/1.1\r\r\n", "<fail bad-version 11>"},
    /* line ends */
    {"GET / HTTP/1.1\n\n", "<fail bad-line-ending 14>"},
    {"GET /\nHTTP/1.1\r\n", "<fail bad-request-line 5>"},
    {LINE "A: b\n\r\n", "<fail bad-line-ending 20>"},
    {LINE "A: \x01\n\r\n", "<fail bad-line-ending 20>"},
    {LINE "\n", "<fail bad-line-ending 16>"},
    {LINE "A: b\r\n\n", "<fail bad-line-ending 22>"},
    {LINE "\rX", "<fail bad-header-name 16>"},
    {LINE "\r\rX", "<fail bad-header-name 16>"},
    {LINE "A: b\rc\r\n\r\n", "<fail bad-header-value 20>"},
    {LINE "A: b\r\r\n\r\n", "<fail bad-header-value 20>"},
    /* fields */
    {LINE "A : b\r\n\r\n", "<fail bad-header-name 17>"},
    {LINE "A\t: b\r\n\r\n", "<fail bad-header-name 17>"},
    {LINE "A\r\n\r\n", "<fail bad-header-name 17>"},
    {LINE ": b\r\n\r\n", "<fail bad-header-name 16>"},
    {LINE "\xc3\xa4: b\r\n\r\n", "<fail bad-header-name 16>"},
    {LINE "A(: b\r\n\r\n", "<fail bad-header-name 17>"},
    {LINE "A: b\x7f\r\n\r\n", "<fail bad-header-value 20>"},
    {LINE "A: \x0b" "b\r\n\r\n", "<fail bad-header-value 19>"},
    {LINE " A: b\r\n\r\n", "<fail bad-header-name 16>"},
    {LINE "A: b\r\n c\r\n\r\n", "<fail obs-fold 22>"},
    {LINE "A: b\r\n \r\n\r\n", "<fail obs-fold 22>"},
    {LINE "A: b\r\n\t\n", "<fail obs-fold 22>"},
    {LINE "a:1\r\nb:2\r\nc:3\r\nd:4\r\n\r\n", GOT "a=1|b=2|c=3|d=4|end 38>"},
    {LINE "a:1\r\nb:2\r\nc:3\r\nd:4\r\ne:5\r\n\r\n", "<fail header-too-large 36>"},
    {LINE "a:1\r\nb:2\r\nc:3\r\nd:4\r\n(\r\n\r\n", "<fail header-too-large 36>"},
    /* target: 16 bytes at most */
    {"GET /123456789abcdef HTTP/1.1\r\n\r\n", "<GET /123456789abcdef 1.1|end 33>"},
    {"GET /123456789abcdefg HTTP/1.1\r\n\r\n", "<fail uri-too-long 20>"},
    {"GET /123456789abcdefg\r\n\r\n", "<fail uri-too-long 20>"},
    {"GET /123456789abcdefg", "<fail uri-too-long 20>"},
    {"GET /123456789abcdef\x01 HTTP/1.1\r\n", "<fail bad-request-target 20>"},
    {"GET /12345\x01 HTTP/1.1\r\n", "<fail bad-request-target 10>"},
    /* cut off */
    {"", "<short>"},
    {"\r", "<short>"},
    {"GET", "<short>"},
    {LINE, "<short>"},
    {LINE "A: b\r\n\r", "<short>"},
};

static const head_case response[] = {
    {STATUS "\r\n", REPLY "end 19>"},
    {"HTTP/1.0 404 Not  Found\xff\t\r\n\r\n", "<1.0 404 Not  Found\xff\t|end 29>"},
    {"HTTP/1.1 200\r\n\r\n", "<1.1 200 |end 16>"},
    {"HTTP/1.1 200 \r\n\r\n", "<1.1 200 |end 17>"},
    {"HTTP/1.1 999 x\r\n\r\n", "<1.1 999 x|end 18>"},
    {"\r\n" STATUS "\r\n", REPLY "end 21>"},
    {"HTTP/1.1 200 OK\nA: b\n\n", REPLY "A=b|end 22>"},
    {"HTTP/1.1 200 OK\nA: b\r\n\n", REPLY "A=b|end 23>"},
    {STATUS "A: b\r\n c\r\n\td \r\nB:\r\n \r\n x\r\n\r\n", REPLY "A=b c d|B=x|end 45>"},
    {STATUS "A: b \r\n \r\n \t\r\nC: d\r\n\r\n", REPLY "A=b|C=d|end 39>"},
    {STATUS "A: b\n c\n\n", REPLY "A=b c|end 26>"},
    {STATUS "A: b\r\n \r\n c\r\n\r\n", REPLY "A=b c|end 32>"},
    /* status line */
    {"HTTP", "<short>"},
    {"HTTX", "<fail bad-status-line 0>"},
    {"x", "<fail bad-status-line 0>"},
    {"ICY 200 OK\r\n", "<fail bad-status-line 0>"},
    {"http/1.1 200 OK\r\n", "<fail bad-status-line 0>"},
    {"HTTP/2 200\r\n", "<fail bad-version 5>"},
    {"HTTP/1.\r\n", "<fail bad-version 5>"},
    {"HTTP/1.1\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1  200\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1\t200\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 20\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 2000\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 099\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 2x0\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 -20\r\n", "<fail bad-status-line 8>"},
    {"HTTP/1.1 200OK\r\n", "<fail bad-status-line 12>"},
    {"HTTP/1.1 200\tOK\r\n", "<fail bad-status-line 12>"},
    {"HTTP/1.1 200 O\x01K\r\n", "<fail bad-status-line 14>"},
    {"HTTP/1.1 200 OK\r\r\n", "<fail bad-status-line 15>"},
    /* fields */
    {STATUS " A: b\r\n\r\n", "<fail bad-header-name 17>"},
    {STATUS "A : b\r\n\r\n", "<fail bad-header-name 18>"},
    {STATUS "A: b\rc\n\n", "<fail bad-header-value 21>"},
    {STATUS "A: b\r\n \x01\r\n\r\n", "<fail bad-header-value 24>"},
    {STATUS "\rX", "<fail bad-header-name 17>"},
};

static const head_case trailer[] = {
    {"\r\n", "<end 2>"},
    {"A: b\r\n\r\nrest", "<A=b|end 8>"},
    {"A: b\r\n c\r\n\r\n", "<fail bad-trailer 6>"},
    {"A : b\r\n\r\n", "<fail bad-trailer 1>"},
    {"A: \x01\r\n\r\n", "<fail bad-trailer 3>"},
    {"\n", "<fail bad-line-ending 0>"},
    {"A: b\n", "<fail bad-line-ending 4>"},
    {"a:\r\nb:\r\nc:\r\nd:\r\ne:\r\n\r\n", "<fail trailer-too-large 16>"},
};

static const head_case part[] = {
    {"\r\n", "<end 2>"},
    {"A: b\r\n c\r\n\r\n", "<A=b c|end 12>"},
    {" A: b\r\n\r\n", "<fail bad-header 0>"},
    {"A : b\r\n\r\n", "<fail bad-header 1>"},
    {"A: \x01\r\n\r\n", "<fail bad-header 3>"},
    {"\n", "<fail bad-line-ending 0>"},
    {"A: b\n c\r\n", "<fail bad-line-ending 4>"},
    {"a:\r\nb:\r\nc:\r\nd:\r\ne:\r\n\r\n", "<fail header-too-large 16>"},
};

static void answers (pl_head_kind kind, const head_case *c, size_t n) {
  head.kind = kind;
  for (size_t i = 0; i < n; i++) {
    cuts_all(&codec, c[i].in, strlen(c[i].in), c[i].want, SIZE_MAX);
    if (strstr(c[i].want, "end ")) cuts_truncated(&codec, c[i].in, strtoul(strstr(c[i].want, "end ") + 4, NULL, 10));
  }
}

/* NUL cannot be written in the tables above. */
static void nul (void) {
  static const struct { const char *in; size_t n; const char *want; } cases[] = {
      {"G\0T / HTTP/1.1\r\n", 16, "<fail bad-request-line 1>"},
      {"GET /\0 HTTP/1.1\r\n", 17, "<fail bad-request-target 5>"},
      {LINE "A\0: b\r\n\r\n", 25, "<fail bad-header-name 17>"},
      {LINE "A: b\0\r\n\r\n", 25, "<fail bad-header-value 20>"},
      {LINE "\0\r\n\r\n", 21, "<fail bad-header-name 16>"},
  };
  head.kind = PL_REQUEST;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cuts_all(&codec, cases[i].in, cases[i].n, cases[i].want, SIZE_MAX);
}

/* 128 bytes of head, its blank line and empty lines before it included; 64 of method. */
static void limits (void) {
  for (size_t n = 128; n <= 129; n++) {
    trace in = {0}, want = {0};
    char *fill = repeat('v', n - 24);
    trace_add(&in, "\r\n" LINE "A:%s\r\n\r\nmore", fill);
    if (n == 128) trace_add(&want, GOT "A=%s|end 128>", fill);
    else trace_add(&want, "<fail header-too-large 128>");
    head.kind = PL_REQUEST;
    cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
    free(fill);
    trace_free(&in);
    trace_free(&want);
  }
  for (size_t n = 64; n <= 65; n++) {
    trace in = {0}, want = {0};
    char *method = repeat('M', n);
    trace_add(&in, "%s / HTTP/1.1\r\n\r\n", method);
    if (n == 64) trace_add(&want, "<%s / 1.1|end %zu>", method, in.n);
    else trace_add(&want, "<fail bad-request-line 64>");
    cuts_all(&codec, in.p, in.n, want.p, SIZE_MAX);
    free(method);
    trace_free(&in);
    trace_free(&want);
  }
  static const char endless[] = "\r\n\r\n\r\n\r\n\r\nGET /0123456789 HTTP/1.1\r\n"
      "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX";
  cuts_all(&codec, endless, sizeof endless - 1, "<fail header-too-large 128>", SIZE_MAX);
}

/* A line that comes byte by byte is searched once: the mark follows the bytes, whatever the line is. */
static void marks (void) {
  head_codec c = {.kind = PL_REQUEST, .max = {16384, 4, 8192}};
  char *in = repeat('a', 16384);
  memcpy(in, "GET /", 5);
  head_start(&c);
  for (size_t n = 1; n <= 8192 + 4; n++) {
    if (pl_head_step(&c.h, in, n) != PL_MORE || c.h.scan != n) { CHECK_INT(n, -1); break; }
  }
  CHECK_INT(pl_head_step(&c.h, in, 8192 + 5), PL_FAIL);
  CHECK_INT(c.h.err, PL_E_URI_TOO_LONG);
  free(in);
}

static void idle (void) {
  static const struct { const char *in; bool idle; } cases[] = {
      {"", true}, {"\r", true}, {"\r\n", true}, {"\r\n\r", true}, {"G", false}, {"\r\nG", false}, {"\r\nGET", false},
      {LINE, false}, {LINE "A", false}, {" ", false},
  };
  head_codec c = {.kind = PL_REQUEST, .max = {128, 4, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t n = strlen(cases[i].in);
    ct_how("\"%s\"", cases[i].in);
    head_start(&c);
    const char *p = rooms_place(&where, cases[i].in, n);
    pl_head_step(&c.h, p, n);
    CHECK_INT(pl_head_idle(&c.h, p, n), cases[i].idle);
  }
  ct_how(NULL);
  head_start(&c);
  CHECK_INT(pl_head_step(&c.h, NULL, 0), PL_MORE);
  CHECK(pl_head_idle(&c.h, NULL, 0));
}

static void resets (void) {
  head_codec c = {.kind = PL_REQUEST, .max = {128, 4, 16}};
  head_start(&c);
  CHECK_INT(pl_head_step(&c.h, " ", 1), PL_FAIL);
  pl_head_reset(&c.h);
  CHECK_INT(pl_head_step(&c.h, LINE "A: b\r\n\r\n", 24), PL_END);
  CHECK_INT(c.h.nfields, 1);
  pl_head_reset(&c.h);
  CHECK_INT(pl_head_step(&c.h, LINE "\r\n", 18), PL_END);
  CHECK_INT(c.h.nfields, 0);
  pl_head_reset_fields(&c.h);
  CHECK_INT(pl_head_step(&c.h, "A: b\r\n\r\n", 8), PL_END);
  CHECK_INT(c.h.nfields, 1);
  pl_head_reset_fields(&c.h);
  CHECK_INT(pl_head_step(&c.h, "A: b\r\n c", 8), PL_FAIL);
  CHECK_INT(c.h.err, PL_E_OBS_FOLD);
}

static void known (void) {
  static const struct { const char *name; pl_field_id id; } cases[] = {
      {"Host", PL_F_HOST}, {"hOST", PL_F_HOST}, {"Hosts", PL_F_OTHER}, {"Hos", PL_F_OTHER}, {"Expect", PL_F_EXPECT},
      {"UPGRADE", PL_F_UPGRADE}, {"connection", PL_F_CONNECTION}, {"Set-Cookie", PL_F_SET_COOKIE},
      {"Content-Encoding", PL_F_CONTENT_ENCODING}, {"content-encodin!", PL_F_OTHER},
      {"Content-Type", PL_F_CONTENT_TYPE}, {"Content-Length", PL_F_CONTENT_LENGTH}, {"Content_Length", PL_F_OTHER},
      {"Transfer-Encoding", PL_F_TRANSFER_ENCODING}, {"Transfer_Encoding", PL_F_OTHER},
      {"Content-Disposition", PL_F_CONTENT_DISPOSITION}, {"", PL_F_OTHER},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_how("%s", cases[i].name);
    CHECK_INT(pl_field_known((pl_slice){cases[i].name, strlen(cases[i].name)}), cases[i].id);
  }
  ct_how(NULL);
}

static void unfold (void) {
  static const struct { const char *in, *out; } cases[] = {
      {"", ""}, {"a", "a"}, {"a b", "a b"}, {"a  b\t", "a  b\t"}, {"a\r\n b", "a b"}, {"a \r\n\t\r\n  b c", "a b c"},
      {"a\n b", "a b"}, {"\r\n a", " a"}, {"a\r\n ", "a "}, {"a\rb", "a\rb"},
  };
  char out[32];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t n = strlen(cases[i].in);
    ct_how("\"%s\"", ct_show(0, cases[i].in, n));
    CHECK_STR(out, pl_unfold((pl_slice){rooms_place(&where, cases[i].in, n), n}, out), cases[i].out);
  }
  ct_how(NULL);
  CHECK_INT(pl_unfold((pl_slice){NULL, 0}, out), 0);
  CHECK_MEM(out, pl_unfold((pl_slice){"a\0 \0", 4}, out), "a\0 \0", 4);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The same answers from every vector set that runs here. */
static void sets (void) {
  const pl_simd *set[PL_SIMD_MAX];
  size_t n = pl_simd_all(set);
  for (size_t i = 0; i < n; i++) {
    head.simd = set[i];
    answers(PL_REQUEST, request, COUNT(request));
    answers(PL_RESPONSE, response, COUNT(response));
    answers(PL_TRAILER, trailer, COUNT(trailer));
    answers(PL_PART_HEAD, part, COUNT(part));
    nul();
    limits();
  }
  head.simd = NULL;
}

int main (void) {
  rooms_open(&where, 1024);
  sets();
  marks();
  idle();
  resets();
  known();
  unfold();
  rooms_close(&where);
  return ct_done();
}
