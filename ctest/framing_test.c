/* pl_framing: RFC 9112 6.3 rule by rule, Host and target forms, what the head says of the connection, trailers. */
#include "cuts.h"
#include "codecs.h"

static rooms where;
static pl_field fields[CODEC_FIELDS];

/* "none", "length 5", "chunked", "close", then " keep", " upgrade", " continue", " expect"; or "code offset". */
static void describe (trace *t, const pl_frame *f) {
  static const char *const bodies[] = {"none", "length", "chunked", "close"};
  trace_clear(t);
  if (f->err) { trace_add(t, "%s %u", pl_err_code(f->err), (unsigned)f->err_at); return; }
  trace_add(t, "%s", bodies[f->body]);
  if (f->body == PL_BODY_LENGTH) trace_add(t, " %llu", (unsigned long long)f->length);
  trace_add(t, "%s%s", f->keep_alive ? " keep" : "", f->upgrade ? " upgrade" : "");
  trace_add(t, "%s", f->expect == PL_EXPECT_CONTINUE ? " continue" : f->expect == PL_EXPECT_OTHER ? " expect" : "");
}

static void frame (pl_head_kind kind, const char *start, const char *rest, pl_asked asked, const char *want) {
  trace in = {0}, got = {0};
  pl_head h;
  pl_frame f;
  trace_add(&in, "%s\r\n%s%s\r\n", start, rest, *rest ? "\r\n" : "");
  pl_head_init(&h, kind, (pl_head_limits){1024, CODEC_FIELDS, 1024}, fields);
  const char *p = rooms_place(&where, in.p, in.n);
  ct_how("\"%s\"", ct_show(0, in.p, in.n));
  if (CHECK_INT(pl_head_step(&h, p, in.n), PL_END)) {
    pl_err e = kind == PL_REQUEST ? pl_frame_request(&h, p, &f) : pl_frame_response(&h, p, asked, &f);
    CHECK_INT(e, f.err);
    describe(&got, &f);
    CHECK_STR(got.p, got.n, want);
  }
  ct_how(NULL);
  trace_free(&in);
  trace_free(&got);
}

/* Offsets: the start line is "POST / HTTP/1.1" CRLF, 17 bytes, then "Host: a" CRLF, 9 bytes: fields begin at 26. */
static void request (const char *rest, const char *want) {
  char text[512];
  snprintf(text, sizeof text, "Host: a%s%s", *rest ? "\r\n" : "", rest);
  frame(PL_REQUEST, "POST / HTTP/1.1", text, PL_ASKED_OTHER, want);
}

static void request_bodies (void) {
  request("", "none keep");
  request("Content-Length: 0", "length 0 keep");
  request("Content-Length: 5", "length 5 keep");
  request("content-length:\t005 ", "length 5 keep");
  request("Content-Length: 9223372036854775807", "length 9223372036854775807 keep");
  request("Content-Length: 9223372036854775808", "bad-content-length 42");
  request("Content-Length: 18446744073709551621", "bad-content-length 42");
  request("Content-Length:", "bad-content-length 41");
  request("Content-Length: +5", "bad-content-length 42");
  request("Content-Length: -5", "bad-content-length 42");
  request("Content-Length: 0x5", "bad-content-length 42");
  request("Content-Length: 5 5", "bad-content-length 42");
  request("Content-Length: 5, 5", "bad-content-length 42");
  request("Content-Length: 5,", "bad-content-length 42");
  request("Content-Length: 5.0", "bad-content-length 42");
  request("Content-Length: 5\xa0", "bad-content-length 42");
  request("Content-Length: 5\r\nContent-Length: 5", "conflicting-length 26");
  request("Content-Length: 5\r\nContent-Length: 6", "conflicting-length 26");
  request("Content-Length: 5\r\nContent-Length: x", "bad-content-length 61");
  request("Content_Length: 5", "none keep");
  request("Transfer-Encoding: chunked", "chunked keep");
  request("Transfer-Encoding: \tChUnKeD", "chunked keep");
  request("Transfer-Encoding: , ,chunked,\t,", "chunked keep");
  request("Transfer-Encoding: ,\r\nTransfer-Encoding: chunked", "chunked keep");
  request("Transfer-Encoding: chunked\r\nContent-Length: 5", "te-and-cl 26");
  request("Content-Length: 5\r\nTransfer-Encoding: chunked", "te-and-cl 45");
  request("Content-Length: x\r\nTransfer-Encoding: x", "te-and-cl 45");
  request("Transfer-Encoding: chunked, chunked", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked, gzip", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked, identity", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked;q=1", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked ;q=1", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked x", "bad-transfer-encoding 45");
  request("Transfer-Encoding: \"chunked\"", "bad-transfer-encoding 45");
  request("Transfer-Encoding: chunked\xa0", "bad-transfer-encoding 45");
  request("Transfer-Encoding: xchunked", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding: chunkedx", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding: gzip, chunked", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding: gzip;a=\"b\", chunked", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding: identity", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding: gzip", "unsupported-transfer-encoding 45");
  request("Transfer-Encoding:", "bad-transfer-encoding 44");
  request("Transfer-Encoding: ,", "bad-transfer-encoding 45");
  request("Transfer_Encoding: chunked\r\nContent-Length: 5", "length 5 keep");
  frame(PL_REQUEST, "POST / HTTP/1.0", "Transfer-Encoding: chunked", PL_ASKED_OTHER, "bad-transfer-encoding 36");
  frame(PL_REQUEST, "POST / HTTP/1.0", "Content-Length: 5", PL_ASKED_OTHER, "length 5");
}

static void request_connection (void) {
  request("Connection: close", "none");
  request("Connection: CLOSE", "none");
  request("Connection: keep-alive, close", "none");
  request("Connection: x\r\nConnection: ,close", "none");
  request("Connection: closed", "none keep");
  request("Connection: upgrade", "none keep");
  request("Connection: Upgrade\r\nUpgrade: h2c", "none keep upgrade");
  request("Upgrade: h2c", "none keep");
  request("Expect: 100-Continue", "none keep continue");
  request("Expect: 100-continue, x", "none keep expect");
  request("Expect: 100-continue\r\nExpect: 100-continue", "none keep expect");
  request("Expect:", "none keep expect");
  frame(PL_REQUEST, "GET / HTTP/1.0", "", PL_ASKED_OTHER, "none");
  frame(PL_REQUEST, "GET / HTTP/1.0", "Connection: keep-alive", PL_ASKED_OTHER, "none keep");
  frame(PL_REQUEST, "GET / HTTP/1.0", "Connection: keep-alive, close", PL_ASKED_OTHER, "none");
  frame(PL_REQUEST, "GET / HTTP/1.0", "Connection: upgrade\r\nUpgrade: h2c", PL_ASKED_OTHER, "none");
  frame(PL_REQUEST, "GET / HTTP/1.0", "Expect: 100-continue", PL_ASKED_OTHER, "none");
}

static void hosts (void) {
  static const char *const good[] = {
      "", "a", "a.b:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:80", "a_b-c~d", "a%20b", "[v1.x]",
  };
  static const char *const bad[] = {
      "a b", "a,b", "a/b", "u@a", "a:b", "a:80:80", "a:-1", "[::1", "::1]", "[::1]80", "[[::1]", "[::1]]",
      "a[b]", "a\xff", "a#b", "a?b", "\"a\"", "a\\b", "a<b",
  };
  char line[64];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    snprintf(line, sizeof line, "Host: %s", good[i]);
    frame(PL_REQUEST, "GET / HTTP/1.1", line, PL_ASKED_OTHER, "none keep");
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(line, sizeof line, "Host: %s", bad[i]);
    frame(PL_REQUEST, "GET / HTTP/1.1", line, PL_ASKED_OTHER, "bad-host 22");
    frame(PL_REQUEST, "GET / HTTP/1.0", line, PL_ASKED_OTHER, "bad-host 22");
  }
  frame(PL_REQUEST, "GET / HTTP/1.1", "", PL_ASKED_OTHER, "bad-host 18");
  frame(PL_REQUEST, "GET / HTTP/1.1", "Host: a\r\nhost: a", PL_ASKED_OTHER, "bad-host 22");
  frame(PL_REQUEST, "GET / HTTP/1.0", "Host: a\r\nhost: a", PL_ASKED_OTHER, "bad-host 22");
  frame(PL_REQUEST, "GET http://b/ HTTP/1.1", "Host: a", PL_ASKED_OTHER, "none keep");
}

static void targets (void) {
  static const struct { const char *start; bool ok; } cases[] = {
      {"GET /", true}, {"GET //a", true}, {"GET /?a=b%20%zz", true}, {"GET *", false}, {"OPTIONS *", true},
      {"options *", false}, {"OPTIONS **", false}, {"GET http://a", true}, {"GET HTTP://a/b?c", true},
      {"GET x+y-1.z://a", true}, {"GET http:/a", false}, {"GET http://", false}, {"GET http:///a", false},
      {"GET http://?a", false}, {"GET http:a", false}, {"GET 1x://a", false}, {"GET a:80", false},
      {"GET a", false}, {"GET ?a", false}, {"GET ://a", false}, {"CONNECT a:80", true},
      {"CONNECT [::1]:80", true}, {"CONNECT a", false}, {"CONNECT a:", false}, {"CONNECT :80", false},
      {"CONNECT [::1]", false}, {"CONNECT [::1]:", false}, {"CONNECT a:b", false}, {"CONNECT /", false},
      {"CONNECT http://a:80", false}, {"CONNECT a:80/", false}, {"CONNECT u@a:80", false}, {"CONNECT *", false},
      {"CONNECT a:1:2", false}, {"connect a:80", false},
  };
  char start[64], want[64];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(start, sizeof start, "%s HTTP/1.1", cases[i].start);
    snprintf(want, sizeof want, "bad-request-target %zu", strcspn(start, " ") + 1);
    frame(PL_REQUEST, start, "Host: a", PL_ASKED_OTHER, cases[i].ok ? "none keep" : want);
  }
}

static void responses (void) {
  static const struct { const char *start, *rest; pl_asked asked; const char *want; } cases[] = {
      {"HTTP/1.1 200 OK", "", PL_ASKED_OTHER, "close"},
      {"HTTP/1.0 200 OK", "", PL_ASKED_OTHER, "close"},
      {"HTTP/1.0 200 OK", "Content-Length: 5\r\nConnection: keep-alive", PL_ASKED_OTHER, "length 5 keep"},
      {"HTTP/1.1 200 OK", "Content-Length: 5", PL_ASKED_OTHER, "length 5 keep"},
      {"HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: close", PL_ASKED_OTHER, "length 5"},
      {"HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: x,\r\n close", PL_ASKED_OTHER, "length 5"},
      {"HTTP/1.1 200 OK", "Content-Length:\r\n 5", PL_ASKED_OTHER, "length 5 keep"},
      {"HTTP/1.1 200 OK", "Content-Length: 5\r\n 6", PL_ASKED_OTHER, "bad-content-length 33"},
      {"HTTP/1.1 200 OK", "Content-Length: 5, 5", PL_ASKED_OTHER, "bad-content-length 33"},
      {"HTTP/1.1 200 OK", "Content-Length: 5\r\nContent-Length: 5", PL_ASKED_OTHER, "conflicting-length 17"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked", PL_ASKED_OTHER, "chunked keep"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding:\r\n chunked", PL_ASKED_OTHER, "chunked keep"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: ,\r\n chunked", PL_ASKED_OTHER, "bad-transfer-encoding 36"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: x\r\nTransfer-Encoding: y,\r\n chunked", PL_ASKED_OTHER,
       "bad-transfer-encoding 36"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked", PL_ASKED_OTHER, "chunked keep"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: gzip", PL_ASKED_OTHER, "close"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked, gzip", PL_ASKED_OTHER, "close"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked, chunked", PL_ASKED_OTHER, "bad-transfer-encoding 36"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked;a=b", PL_ASKED_OTHER, "bad-transfer-encoding 36"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nContent-Length: 5", PL_ASKED_OTHER, "te-and-cl 17"},
      {"HTTP/1.0 200 OK", "Transfer-Encoding: chunked", PL_ASKED_OTHER, "bad-transfer-encoding 36"},
      {"HTTP/1.1 200 OK", "Content-Length: 5", PL_ASKED_HEAD, "none keep"},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nContent-Length: 5", PL_ASKED_HEAD, "none keep"},
      {"HTTP/1.1 204 x", "Content-Length: 5", PL_ASKED_OTHER, "none keep"},
      {"HTTP/1.1 304 x", "Transfer-Encoding: chunked", PL_ASKED_OTHER, "none keep"},
      {"HTTP/1.1 100 x", "Content-Length: 5", PL_ASKED_OTHER, "none keep"},
      {"HTTP/1.1 101 x", "Connection: upgrade\r\nUpgrade: y", PL_ASKED_OTHER, "none keep upgrade"},
      {"HTTP/1.1 205 x", "", PL_ASKED_OTHER, "close"},
      {"HTTP/1.1 200 x", "Content-Length: 5", PL_ASKED_CONNECT, "none keep upgrade"},
      {"HTTP/1.1 299 x", "Transfer-Encoding: chunked", PL_ASKED_CONNECT, "none keep upgrade"},
      {"HTTP/1.1 407 x", "Content-Length: 5", PL_ASKED_CONNECT, "length 5 keep"},
      {"HTTP/1.1 426 x", "Connection: upgrade\r\nUpgrade: y\r\nContent-Length: 0", PL_ASKED_OTHER, "length 0 keep"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    frame(PL_RESPONSE, cases[i].start, cases[i].rest, cases[i].asked, cases[i].want);
}

static void trailers (void) {
  static const char *const refused[] = {
      "Content-Length", "TRANSFER-ENCODING", "Host", "Authorization", "Set-Cookie", "Content-Type",
      "X-Forwarded-For", "Connection", "Trailer", "TE", "Content-Encoding", "Cookie", "X-Forwarded-Whatever",
      "X-HTTP-Method-Override", "Content-Location", "If-Match", "If-Unmodified-Since",
  };
  static const char *const allowed[] = {
      "Content-MD5", "Digest", "Server-Timing", "X-Checksum", "ETag", "Content-Digest", "X", "Hosts",
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!CHECK(!pl_trailer_allowed((pl_slice){refused[i], strlen(refused[i])}))) fprintf(stderr, "%s\n", refused[i]);
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    CHECK(pl_trailer_allowed((pl_slice){allowed[i], strlen(allowed[i])}));
}

int main (void) {
  rooms_open(&where, 1024);
  request_bodies();
  request_connection();
  hosts();
  targets();
  responses();
  trailers();
  rooms_close(&where);
  return ct_done();
}
