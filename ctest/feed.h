/* Feeds a codec as its caller does: bytes come in pieces, those not used are kept and presented again with more behind
   them, at another address each time; and writes down what it answers, as text. For the C tests and the fuzz targets.

     trace       content raw ("<" as "<<"), everything else in < >: <part name=a>hello<end 57>
     feed_cuts   where the input is cut
     feed_run    the loop; it adds <short> when the input was over before the codec was. A broken promise, such as no
                 progress or an answer that is not repeated, is written too, and marks the trace as broken */
#ifndef FEED_H
#define FEED_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pl_base.h"

typedef struct trace {
  char *p;
  size_t n, cap;
  bool broken;
} trace;

static inline void trace_bytes (trace *t, const char *p, size_t n) {
  if (t->n + n + 1 > t->cap) {
    t->cap = (t->n + n + 1) * 2;
    t->p = realloc(t->p, t->cap);
    if (t->p == NULL) abort();
  }
  if (n > 0) memcpy(t->p + t->n, p, n);
  t->n += n;
  t->p[t->n] = '\0';
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline void trace_add (trace *t, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  trace_bytes(t, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static inline void trace_text (trace *t, pl_slice s) {
  while (s.n > 0) {
    const char *lt = memchr(s.p, '<', s.n);
    size_t k = lt ? (size_t)(lt - s.p) + 1 : s.n;
    trace_bytes(t, s.p, k);
    if (lt) trace_bytes(t, "<", 1);
    s = (pl_slice){s.p + k, s.n - k};
  }
}

static inline void trace_broken (trace *t, const char *promise) {
  t->broken = true;
  trace_add(t, "<broken: %s>", promise);
}

static inline void trace_clear (trace *t) {
  t->n = 0;
  t->broken = false;
  trace_bytes(t, NULL, 0);
}

static inline void trace_free (trace *t) {
  free(t->p);
  *t = (trace){0};
}

/* The first piece has `first` bytes, the following ones steps[0], steps[1] ... over and over; 0: all that is left. */
typedef struct feed_cuts {
  size_t first;
  const unsigned char *steps;
  size_t nsteps;
} feed_cuts;

static const unsigned char feed_one[1] = {1}, feed_all[1] = {0};
#define FEED_WHOLE ((feed_cuts){SIZE_MAX, feed_all, 1})
#define FEED_BYTES ((feed_cuts){0, feed_one, 1})
#define FEED_AT(k) ((feed_cuts){(k), feed_all, 1})

/* One call of a codec; writes its events to t, but for nothing at PL_MORE. eof: nothing follows the n bytes. */
typedef pl_got (*feed_step) (void *codec, const char *p, size_t n, bool eof, size_t *used, trace *t);

/* Where bytes lie while they are presented: a place with an end that cannot be passed. */
typedef const char *(*feed_place) (void *where, const char *bytes, size_t n);

typedef struct feed {
  feed_step step;
  void *codec;
  feed_place place;
  void *where;
  trace *t;
  pl_got last; /* after feed_run: PL_END, PL_FAIL, or PL_MORE when the input was over before */
} feed;

static inline size_t feed_more (const feed_cuts *c, size_t n, size_t have, size_t *i) {
  size_t step = c->steps[(*i)++ % c->nsteps];
  return step == 0 || step > n - have ? n : have + step;
}

/* A finished codec must say the same again, whatever it is shown, and use nothing. */
static inline void feed_again (feed *f) {
  trace *t = f->t;
  size_t used = 0, n = t->n;
  pl_got got = f->step(f->codec, f->place(f->where, "\r\n\r\n", 4), 4, true, &used, t);
  size_t more = t->n - n;
  bool same = got == f->last && used == 0 && more <= n && memcmp(t->p + n - more, t->p + n, more) == 0;
  t->n = n;
  t->p[n] = '\0';
  if (!same || (got == PL_FAIL && more == 0)) trace_broken(t, "the same answer again");
}

/* Returns how many bytes were used. */
static inline size_t feed_run (feed *f, const char *in, size_t n, feed_cuts cuts) {
  size_t at = 0, have = cuts.first < n ? cuts.first : n, i = 0, budget = 16 * n + 64;
  trace_clear(f->t);
  for (;;) {
    size_t used = 0, before = f->t->n;
    bool eof = have == n;
    pl_got got = f->step(f->codec, f->place(f->where, in + at, have - at), have - at, eof, &used, f->t);
    if (used > have - at) abort();
    at += used;
    f->last = got;
    if (got == PL_END || got == PL_FAIL) return feed_again(f), at;
    if (budget-- == 0 || (got == PL_DATA && used == 0 && f->t->n == before)) return trace_broken(f->t, "progress"), at;
    if (got != PL_MORE) continue;
    if (eof) return trace_add(f->t, "<short>"), at;
    have = feed_more(&cuts, n, have, &i);
  }
}

#endif
