/* What the fuzz targets share. An input is: one byte of options, one that says how many lengths of pieces follow (0 to
   15; none: byte by byte), those lengths, then the bytes that the codec is fed. A broken invariant ends the process. */
#ifndef FUZZ_H
#define FUZZ_H

#include "../ctest/codecs.h"

typedef struct fuzz_input {
  unsigned options;
  feed_cuts cuts;
  const char *p;
  size_t n;
} fuzz_input;

static inline bool fuzz_read (const uint8_t *data, size_t size, fuzz_input *in) {
  if (size < 2) return false;
  size_t k = data[1] % 16;
  if (size < 2 + k) return false;
  in->options = data[0];
  in->cuts = k ? (feed_cuts){data[2], data + 2, k} : FEED_BYTES;
  in->p = (const char *)data + 2 + k;
  in->n = size - 2 - k;
  return true;
}

#define INVARIANT(cond, ...)                          \
  do {                                               \
    if (cond) break;                                 \
    fprintf(stderr, "invariant: " __VA_ARGS__);      \
    fputc('\n', stderr);                             \
    abort();                                         \
  } while (0)

/* A copy of exactly n bytes, so that one more is an error; the copy before is gone. NULL for no bytes. */
static inline const char *fuzz_place (void *where, const char *bytes, size_t n) {
  char **old = where;
  free(*old);
  *old = n ? malloc(n) : NULL;
  if (n > 0 && *old == NULL) abort();
  if (n > 0) memcpy(*old, bytes, n);
  return *old;
}

static inline pl_got fuzz_run (feed_step step, void *codec, const fuzz_input *in, feed_cuts cuts, trace *t,
                               size_t *used) {
  char *room = NULL;
  feed f = {step, codec, fuzz_place, &room, t, PL_MORE};
  *used = feed_run(&f, in->p, in->n, cuts);
  free(room);
  INVARIANT(!t->broken, "no promise is broken: %s", t->p);
  return f.last;
}

/* Runs the codec whole and cut; the text of the whole stays in t, the codec as it was after it. The answer is PL_END,
   PL_FAIL, or PL_MORE when the input ends too early; *used then counts as far as the codec went. */
static inline pl_got fuzz_both (feed_step step, void (*start) (void *), void *codec, const fuzz_input *in, trace *t,
                                size_t *used) {
  trace cut = {0};
  size_t used_cut;
  start(codec);
  pl_got got_cut = fuzz_run(step, codec, in, in->cuts, &cut, &used_cut);
  start(codec);
  pl_got got = fuzz_run(step, codec, in, FEED_WHOLE, t, used);
  bool same = t->n == cut.n && memcmp(t->p, cut.p, t->n) == 0;
  INVARIANT(same, "whole and cut agree\n whole: %s\n cut:   %s", t->p, cut.p);
  INVARIANT(got == got_cut && (got != PL_END || *used == used_cut), "whole uses %zu, cut %zu", *used, used_cut);
  trace_free(&cut);
  return got;
}

/* One of the vector sets that run here, or the portable code. */
static inline const pl_simd *fuzz_set (unsigned which) {
  const pl_simd *sets[PL_SIMD_MAX];
  size_t n = pl_simd_all(sets);
  return sets[which % n];
}

/* Character classes once more, as the grammar has them. */
static inline bool is_alnum (unsigned char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }
static inline bool is_token (unsigned char c) { return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c)); }
static inline bool is_value (unsigned char c) { return c == '\t' || (c >= ' ' && c != 0x7f); }
static inline bool is_blank (unsigned char c) { return c == ' ' || c == '\t'; }

#endif
