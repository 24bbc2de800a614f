/* Invariant: a chunked body fed whole and cut gives the same content, trailer, error and offset; and the content is
   that of a naive decoder, which refuses whatever RFC 9112 7.1 does not have. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* The naive decoder works on a NUL-terminated copy with string functions: slow, and unlike the state machine. */
typedef struct naive {
  const char *p, *end;
  bool lenient;
  trace content;
} naive;

static void blanks (naive *d) { while (d->p < d->end && is_blank((unsigned char)*d->p)) d->p++; }

static bool token (naive *d) {
  const char *from = d->p;
  while (d->p < d->end && is_token((unsigned char)*d->p)) d->p++;
  return d->p > from;
}

static bool quoted (naive *d) {
  for (d->p++; d->p < d->end && *d->p != '"'; d->p++) {
    if (*d->p == '\\') d->p++;
    if (d->p >= d->end || !is_value((unsigned char)*d->p)) return false;
  }
  return d->p++ < d->end;
}

/* BWS, which must lead to a character of `next`; in a response a line may end in it. */
static bool gap (naive *d, const char *next) {
  const char *from = d->p;
  blanks(d);
  if (d->p >= d->end) return false;
  return d->p == from || strchr(next, *d->p) || (d->lenient && *d->p == '\r');
}

static bool extensions (naive *d) {
  for (;;) {
    if (!gap(d, ";")) return false;
    if (*d->p != ';') return true;
    d->p++;
    blanks(d);
    if (!token(d) || !gap(d, ";=")) return false;
    if (*d->p != '=') continue;
    d->p++;
    blanks(d);
    if (d->p < d->end && *d->p == '"' ? !quoted(d) : !token(d)) return false;
  }
}

static bool crlf (naive *d) {
  bool ok = d->end - d->p >= 2 && memcmp(d->p, "\r\n", 2) == 0;
  d->p += ok ? 2 : 0;
  return ok;
}

static const char digits[] = "0123456789abcdefABCDEF";

/* 1: a chunk, 0: the last one, -1: neither. */
static int chunk (naive *d) {
  uint64_t n = 0;
  const char *from = d->p;
  for (; d->p < d->end && *d->p && strchr(digits, *d->p); d->p++) {
    uint64_t value = (uint64_t)(strchr(digits, *d->p) - digits);
    if (n >> 59) return -1;
    n = n * 16 + (value < 16 ? value : value - 6);
  }
  if (d->p == from || !extensions(d) || !crlf(d)) return -1;
  if (n == 0) return 0;
  if (n > (uint64_t)(d->end - d->p)) return -1;
  trace_text(&d->content, (pl_slice){d->p, (size_t)n});
  d->p += n;
  return crlf(d) ? 1 : -1;
}

/* Lines up to an empty one, without a look into them. */
static bool trailer (naive *d) {
  while (d->p < d->end && !(d->end - d->p >= 2 && memcmp(d->p, "\r\n", 2) == 0)) {
    const char *lf = memchr(d->p, '\n', (size_t)(d->end - d->p));
    if (lf == NULL) return false;
    d->p = lf + 1;
  }
  return crlf(d);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  fuzz_input in;
  trace t = {0};
  if (!fuzz_read(data, size, &in)) return 0;
  bool tight = in.options & 2;
  chunk_codec c = {.lenient = in.options & 1, .max = {tight ? 16 : 65535, tight ? 24 : 65535},
                   .trailer_max = {tight ? 48 : 65535, tight ? 3 : CODEC_FIELDS, 0}};
  size_t used;
  bool ended = fuzz_both(chunk_feed, chunk_start, &c, &in, &t, &used) == PL_END;
  naive d = {.p = in.p, .end = in.p + in.n, .lenient = c.lenient};
  trace_clear(&d.content);
  int more;
  while ((more = chunk(&d)) == 1) {}
  bool whole = more == 0 && trailer(&d);
  if (ended) {
    INVARIANT(whole && used == (size_t)(d.p - in.p), "the naive decoder ends there too: %s", t.p);
    INVARIANT(t.n >= d.content.n && memcmp(t.p, d.content.p, d.content.n) == 0, "the same content");
  }
  bool limited = c.c.err == PL_E_CHUNK_EXT_TOO_LARGE || c.c.err == PL_E_TRAILER_TOO_LARGE;
  limited = limited || (tight && c.c.err == PL_E_BAD_CHUNK_SIZE);
  bool in_trailer = c.c.err == PL_E_BAD_TRAILER || c.c.err == PL_E_BAD_LINE_ENDING;
  INVARIANT(ended || !whole || limited || in_trailer, "refuses what the naive decoder takes: %s", t.p);
  INVARIANT(c.c.err_at <= in.n, "the offset lies in the input");
  trace_free(&t);
  trace_free(&d.content);
  return 0;
}
