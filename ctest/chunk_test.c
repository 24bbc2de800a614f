/* pl_chunk: RFC 9112 7.1 at every cut; the error and its offset; the limits; the writer of size lines. */
#include "cuts.h"
#include "codecs.h"

static rooms where;
static chunk_codec chunk = {.max = {64, 32}, .trailer_max = {64, 4, 0}};
static const cuts_codec codec = {chunk_feed, &chunk, chunk_start, &where};

static const struct { const char *in, *want; } both[] = {
    /* bodies */
    {"0\r\n\r\n", "<end 5>"},
    {"0\r\n\r\nGET / HTTP/1.1", "<end 5>"},
    {"4\r\nwiki\r\n0\r\n\r\n", "wiki<end 14>"},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world<end 26>"},
    {"a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789<end 36>"},
    {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n<end 12>"},
    {"00000000000000000000000000000000001\r\nx\r\n0\r\n\r\n", "x<end 45>"},
    /* trailers */
    {"0\r\nA: b\r\n\r\n", "<A=b|end 11>"},
    {"1\r\nx\r\n0\r\nA: b\r\nC:d \r\n\r\nrest", "x<A=b|C=d|end 23>"},
    {"0\r\nA : b\r\n\r\n", "<fail bad-trailer 4>"},
    {"0\r\nA: b\r\n c\r\n\r\n", "<fail bad-trailer 9>"},
    {"0\r\nA: \x01\r\n\r\n", "<fail bad-trailer 6>"},
    {"0\r\nA: b\n\r\n", "<fail bad-line-ending 7>"},
    {"0\r\n\n", "<fail bad-line-ending 3>"},
    {"0\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", "<fail trailer-too-large 27>"},
    /* extensions */
    {"1;a\r\nx\r\n0;b=c\r\n\r\n", "x<end 17>"},
    {"1;a=\"q;\\\"\\\\\t \xff\";b\r\nx\r\n0\r\n\r\n", "x<end 27>"},
    {"1 ; a = b ;c\r\nx\r\n0\r\n\r\n", "x<end 22>"},
    {"1\t;\ta\t=\t\"\"\t;b\r\nx\r\n0\r\n\r\n", "x<end 23>"},
    {"1;\r\n", "<fail bad-chunk-ext 2>"},
    {"1;;a\r\n", "<fail bad-chunk-ext 2>"},
    {"1;a=\r\n", "<fail bad-chunk-ext 4>"},
    {"1;a=b=c\r\n", "<fail bad-chunk-ext 5>"},
    {"1;=b\r\n", "<fail bad-chunk-ext 2>"},
    {"1;a b\r\n", "<fail bad-chunk-ext 4>"},
    {"1;a=\"b\"c\r\n", "<fail bad-chunk-ext 7>"},
    {"1;a=\"\r\nx\r\n0\r\n\r\n", "<fail bad-chunk-ext 5>"},
    {"1;a=\"\\\r\n", "<fail bad-chunk-ext 6>"},
    {"1;a=\"\x01\"\r\n", "<fail bad-chunk-ext 5>"},
    {"1;\nxx\r\n", "<fail bad-chunk-ext 2>"},
    {"1;a\nx", "<fail bad-chunk-ext 3>"},
    {"1;a\rx", "<fail bad-chunk-ext 4>"},
    {"1;a\r\rx", "<fail bad-chunk-ext 4>"},
    /* sizes */
    {"\r\n", "<fail bad-chunk-size 0>"},
    {"\n", "<fail bad-chunk-size 0>"},
    {";a\r\n", "<fail bad-chunk-size 0>"},
    {" 1\r\n", "<fail bad-chunk-size 0>"},
    {"+1\r\n", "<fail bad-chunk-size 0>"},
    {"-1\r\n", "<fail bad-chunk-size 0>"},
    {"0x1\r\n", "<fail bad-chunk-size 1>"},
    {"1_0\r\n", "<fail bad-chunk-size 1>"},
    {"1g\r\n", "<fail bad-chunk-size 1>"},
    {"1,\r\n", "<fail bad-chunk-size 1>"},
    {"1 2\r\n", "<fail bad-chunk-size 2>"},
    {"1\rx", "<fail bad-chunk-size 2>"},
    {"2\r\r\n", "<fail bad-chunk-size 2>"},
    {"1\n", "<fail bad-line-ending 1>"},
    {"1 \n", "<fail bad-chunk-size 2>"},
    {"10000000000000000\r\n", "<fail chunk-size-overflow 16>"},
    {"10000000000000005\r\nhello", "<fail chunk-size-overflow 16>"},
    {"8000000000000000\r\n", "<fail chunk-size-overflow 15>"},
    {"ffffffffffffffff\r\n", "<fail chunk-size-overflow 15>"},
    {"7fffffffffffffff\r\nx", "x<short>"},
    {"00007fffffffffffffff\r\nx", "x<short>"},
    {"1\r\nx\r\n\r\n", "x<fail bad-chunk-size 6>"},
    /* the CRLF behind the content */
    {"1\r\nxy\r\n0\r\n\r\n", "x<fail bad-chunk-terminator 4>"},
    {"1\r\nx\n0\r\n\r\n", "x<fail bad-chunk-terminator 4>"},
    {"1\r\nx\rx", "x<fail bad-chunk-terminator 5>"},
    {"1\r\nx0\r\n\r\n", "x<fail bad-chunk-terminator 4>"},
    /* cut off */
    {"", "<short>"},
    {"1", "<short>"},
    {"1;a", "<short>"},
    {"1\r", "<short>"},
    {"1\r\nx", "x<short>"},
    {"1\r\nx\r\n0\r\n\r", "x<short>"},
};

/* What a response may do that a request may not. */
static const struct { const char *in, *strict, *lenient; } blanks[] = {
    {"1 \r\nx\r\n0 \t\r\n\r\n", "<fail bad-chunk-size 2>", "x<end 14>"},
    {"1;a \r\nx\r\n0\r\n\r\n", "<fail bad-chunk-ext 4>", "x<end 14>"},
    {"1;a=b\t\r\nx\r\n0\r\n\r\n", "<fail bad-chunk-ext 6>", "x<end 16>"},
    {"1;a=\"b\" \r\nx\r\n0\r\n\r\n", "<fail bad-chunk-ext 8>", "x<end 18>"},
    {"1; \r\nx\r\n0\r\n\r\n", "<fail bad-chunk-ext 3>", "<fail bad-chunk-ext 3>"},
    {" 1\r\nx\r\n0\r\n\r\n", "<fail bad-chunk-size 0>", "<fail bad-chunk-size 0>"},
    {"1 2\r\nx", "<fail bad-chunk-size 2>", "<fail bad-chunk-size 2>"},
    {"1 \nx", "<fail bad-chunk-size 2>", "<fail bad-chunk-size 2>"},
};

static void answers (void) {
  for (chunk.lenient = false;; chunk.lenient = true) {
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
      cuts_all(&codec, both[i].in, strlen(both[i].in), both[i].want, SIZE_MAX);
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
      const char *want = chunk.lenient ? blanks[i].lenient : blanks[i].strict;
      cuts_all(&codec, blanks[i].in, strlen(blanks[i].in), want, SIZE_MAX);
    }
    if (chunk.lenient) break;
  }
  chunk.lenient = false;
}

/* The first used bytes end the body; what follows belongs to somebody else. */
static void leftover (void) {
  static const char in[] = "4;x=\"y\"\r\nwiki\r\n0\r\nT: u\r\n\r\nGET";
  cuts_all(&codec, in, sizeof in - 1, "wiki<T=u|end 26>", 26);
  cuts_truncated(&codec, in, 26);
}

static void line_of (char fill, const char *before, size_t n, const char *after, const char *want) {
  trace t = {0};
  char *zeros = repeat(fill, n);
  trace_add(&t, "%s", before);
  trace_bytes(&t, zeros, n);
  trace_add(&t, "%s", after);
  cuts_all(&codec, t.p, t.n, want, SIZE_MAX);
  trace_free(&t);
  free(zeros);
}

/* Each limit at it and one past it: 64 bytes of line, 32 of extensions in the body, 64 of trailer. */
static void limits (void) {
  line_of('0', "", 63, "1\r\nx\r\n0\r\n\r\n", "x<end 74>");
  line_of('0', "", 64, "1\r\nx\r\n0\r\n\r\n", "<fail bad-chunk-size 64>");
  line_of('0', "", 64, "\r\n\r\n", "<end 68>");
  line_of('0', "", 65, "\r\n\r\n", "<fail bad-chunk-size 64>");
  line_of('0', "", 62, ";a\r\n\r\n", "<end 68>");
  line_of('0', "", 63, ";a\r\n\r\n", "<fail chunk-ext-too-large 64>");
  line_of('0', "", 64, ";a\r\n\r\n", "<fail bad-chunk-size 64>");
  line_of('a', "1;", 31, "\r\nx\r\n0\r\n\r\n", "x<end 43>");
  line_of('a', "1;", 32, "\r\nx\r\n0\r\n\r\n", "<fail chunk-ext-too-large 33>");
  line_of('a', "1;a\r\nx\r\n1;", 29, "\r\nx\r\n0\r\n\r\n", "xx<end 49>"); /* over the whole body, ";" included */
  line_of('a', "1;a\r\nx\r\n1;", 30, "\r\nx\r\n0\r\n\r\n", "x<fail chunk-ext-too-large 39>");
  line_of(' ', "1", 31, ";\r\n", "<fail bad-chunk-ext 33>");
  line_of(' ', "1", 32, ";\r\n", "<fail chunk-ext-too-large 33>");
  line_of('t', "0\r\nA:", 58, "\r\n\r\n", "<A=tttttttttttttttttttttttttttttttttttttttttttttttttttttttttt|end 67>");
  line_of('t', "0\r\nA:", 59, "\r\n\r\n", "<fail trailer-too-large 67>");
}

/* A chunk at a time and memory of nothing: a size beyond 4 GiB is counted, not kept. */
static void beyond_32_bits (void) {
  chunk_codec c = chunk;
  size_t used;
  pl_slice data;
  static const char line[] = "100000005\r\n";
  char *block = repeat('x', 1 << 16);
  chunk_start(&c);
  CHECK_INT(pl_chunk_step(&c.c, line, sizeof line - 1, &used, &data), PL_MORE);
  for (int i = 0; i < 1 << 16; i++) {
    if (pl_chunk_step(&c.c, block, 1 << 16, &used, &data) != PL_DATA || data.n != 1 << 16) { CHECK_INT(i, -1); break; }
  }
  CHECK_INT(c.c.left, 5);
  CHECK_INT(pl_chunk_step(&c.c, block, 1 << 16, &used, &data), PL_DATA);
  CHECK_INT(data.n, 5);
  CHECK_INT(pl_chunk_step(&c.c, block, 9, &used, &data), PL_FAIL);
  CHECK_INT(c.c.err, PL_E_BAD_CHUNK_TERMINATOR);
  CHECK_INT(c.c.err_at, (long long)sizeof line - 1 + 0x100000005);
  free(block);
}

static void nothing (void) {
  size_t used = 1;
  pl_slice data;
  chunk_start(&chunk);
  CHECK_INT(pl_chunk_step(&chunk.c, NULL, 0, &used, &data), PL_MORE);
  CHECK_INT(used, 0);
  CHECK_INT(pl_chunk_step(&chunk.c, "0\r\n", 3, &used, &data), PL_MORE);
  CHECK_INT(pl_chunk_step(&chunk.c, NULL, 0, &used, &data), PL_MORE);
}

static void writer (void) {
  static const uint64_t sizes[] = {1, 9, 10, 15, 16, 255, 256, 4096, 65535, 65536, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
                                   INT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char got[PL_CHUNK_LINE_MAX], want[32];
    size_t n = pl_chunk_line(sizes[i], got);
    snprintf(want, sizeof want, "%llx\r\n", (unsigned long long)sizes[i]);
    CHECK_STR(got, n, want);
  }
}

int main (void) {
  rooms_open(&where, 1024);
  answers();
  leftover();
  limits();
  beyond_32_bits();
  nothing();
  writer();
  rooms_close(&where);
  return ct_done();
}
