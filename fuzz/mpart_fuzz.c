/* Invariant: a multipart body fed whole and cut gives the same parts, content, error and offset; and the same as a
   naive splitter that looks at every position of the whole body. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static const char *const boundaries[] = {"b", "bb", "--", "-b-", "AaB03x", "b c", "------", "----WebKitFormBoundary0"};

typedef struct body {
  const char *p;
  size_t n;
  const char *boundary;
} body;

/* Whether a delimiter line without its leading CRLF stands at i: its length, 0 if not; *close. */
static size_t delimiter (const body *b, size_t i, bool *close) {
  size_t k = strlen(b->boundary), at = i + 2 + k;
  if (at > b->n || memcmp(b->p + i, "--", 2) != 0 || memcmp(b->p + i + 2, b->boundary, k) != 0) return 0;
  *close = at + 2 <= b->n && memcmp(b->p + at, "--", 2) == 0;
  if (*close) return 4 + k;
  size_t pad = 0;
  while (at < b->n && is_blank((unsigned char)b->p[at])) at++, pad++;
  return pad <= PL_PADDING_MAX && at + 2 <= b->n && memcmp(b->p + at, "\r\n", 2) == 0 ? at + 2 - i : 0;
}

/* The first position from `from` on where content ends: at `from` itself a delimiter needs no CRLF. */
static bool find (const body *b, size_t from, size_t *at, size_t *length, bool *close) {
  *at = from;
  if ((*length = delimiter(b, from, close)) > 0) return true;
  for (size_t i = from; i + 2 <= b->n; i++) {
    if (memcmp(b->p + i, "\r\n", 2) != 0 || (*length = delimiter(b, i + 2, close)) == 0) continue;
    *at = i;
    *length += 2;
    return true;
  }
  return false;
}

/* The content of all parts, each in < >; false when the body is not one that ends well. Heads are not looked into. */
static bool split (const body *b, trace *t) {
  size_t at, length, from;
  bool close;
  if (!find(b, 0, &at, &length, &close)) return false;
  while (!close) {
    for (from = at + length;; from++) { /* the blank line: at the beginning of the head, or behind a line */
      if (from + 2 > b->n) return false;
      if (memcmp(b->p + from, "\r\n", 2) == 0 && (from == at + length || b->p[from - 1] == '\n')) break;
    }
    from += 2;
    if (!find(b, from, &at, &length, &close)) return false;
    trace_add(t, "<");
    trace_text(t, (pl_slice){b->p + from, at - from});
    trace_add(t, ">");
  }
  return true;
}

/* The trace without what only the codec knows. */
typedef struct events { mpart_codec codec; trace parts; } events;

static pl_got step (void *codec, const char *p, size_t n, bool eof, size_t *used, trace *t) {
  events *e = codec;
  trace text = {0};
  trace_clear(&text);
  pl_got got = mpart_feed(&e->codec, p, n, eof, used, &text);
  trace_bytes(t, text.p, text.n);
  t->broken |= text.broken;
  if (got == PL_DATA) trace_bytes(&e->parts, text.p, text.n);
  if (got == PL_PART) trace_add(&e->parts, "<");
  if (got == PL_PART_END) trace_add(&e->parts, ">");
  trace_free(&text);
  return got;
}

static void start (void *codec) {
  events *e = codec;
  mpart_start(&e->codec);
  trace_clear(&e->parts);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  fuzz_input in;
  trace t = {0}, naive = {0};
  if (!fuzz_read(data, size, &in)) return 0;
  bool tight = in.options & 128;
  events e = {.codec = {.boundary = boundaries[in.options % 8], .is_form = in.options & 64, .max = {tight ? 2 : 1000},
                        .head_max = {tight ? 80 : 65535, CODEC_FIELDS, 0}, .simd = fuzz_set(in.options >> 3)}};
  size_t used;
  bool ended = fuzz_both(step, start, &e, &in, &t, &used) == PL_END;
  const pl_mpart *m = &e.codec.m;
  body b = {in.p, in.n, e.codec.boundary};
  bool whole = split(&b, &naive);
  INVARIANT(!ended || whole, "the naive splitter ends too: %s", t.p);
  bool same = naive.n == e.parts.n && (naive.n == 0 || memcmp(naive.p, e.parts.p, naive.n) == 0);
  INVARIANT(!ended || same, "the same parts\n naive: %s\n codec: %s", naive.p, e.parts.p);
  bool cut = m->err == PL_E_UNEXPECTED_EOF || m->err == PL_E_BAD_FIRST_BOUNDARY;
  INVARIANT(!whole || !cut, "nothing is cut off: %s", t.p);
  INVARIANT(m->err_at <= in.n, "the offset lies in the input");
  trace_free(&t);
  trace_free(&naive);
  trace_free(&e.parts);
  return 0;
}
