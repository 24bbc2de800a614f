/* Runs a codec over one input whole, at every cut in two and byte by byte, next to pages that cannot be read, and wants
   the same text from each. After ctest.h and feed.h. */
#ifndef CUTS_H
#define CUTS_H

#include "ctest.h"
#include "feed.h"

/* Two rooms in turn: what a codec remembers of the one before has been overwritten when it is called again. */
typedef struct rooms {
  ct_guard g[2];
  int turn;
  bool front; /* the first byte touches the dead page, not the last */
} rooms;

static inline void rooms_open (rooms *r, size_t n) {
  ct_guard_open(&r->g[0], n);
  ct_guard_open(&r->g[1], n);
  r->turn = 0;
  r->front = false;
}

static inline void rooms_close (rooms *r) {
  ct_guard_close(&r->g[0]);
  ct_guard_close(&r->g[1]);
}

static inline const char *rooms_place (void *where, const char *bytes, size_t n) {
  rooms *r = where;
  ct_guard *now = &r->g[r->turn], *old = &r->g[r->turn ^= 1];
  memset(old->map + old->page, 0x5A, old->room);
  return r->front ? ct_guard_head(now, bytes, n) : ct_guard_tail(now, bytes, n);
}

typedef struct cuts_codec {
  feed_step step;
  void *codec;
  void (*start) (void *codec); /* makes it new for each run */
  rooms *where;
} cuts_codec;

static inline size_t cuts_once (const cuts_codec *c, const char *in, size_t n, feed_cuts cuts, trace *t) {
  feed f = {c->step, c->codec, rooms_place, c->where, t, PL_MORE};
  c->start(c->codec);
  return feed_run(&f, in, n, cuts);
}

static inline bool cuts_check (const cuts_codec *c, const char *in, size_t n, feed_cuts cuts, const char *want,
                               size_t used, const char *how) {
  trace t = {0};
  ct_how("%s of \"%s\"", how, ct_show(0, in, n));
  size_t got = cuts_once(c, in, n, cuts, &t);
  bool ok = CHECK_STR(t.p, t.n, want) && (used == SIZE_MAX || CHECK_INT(got, used));
  ct_how(NULL);
  trace_free(&t);
  return ok;
}

/* used: SIZE_MAX when it does not matter. The first difference is enough. */
static inline void cuts_all (const cuts_codec *c, const char *in, size_t n, const char *want, size_t used) {
  char how[32];
  bool ok = cuts_check(c, in, n, FEED_WHOLE, want, used, "whole");
  c->where->front = true;
  ok = ok && cuts_check(c, in, n, FEED_WHOLE, want, used, "at the front");
  c->where->front = false;
  for (size_t k = 0; ok && k < n; k++) {
    snprintf(how, sizeof how, "cut at %zu", k);
    ok = cuts_check(c, in, n, FEED_AT(k), want, used, how);
  }
  if (ok) cuts_check(c, in, n, FEED_BYTES, want, used, "bytes");
}

/* Whole, in two halves and in pieces of 7: for inputs too long for cuts_all. */
static inline void cuts_some (const cuts_codec *c, const char *in, size_t n, const char *want) {
  static const unsigned char sevens[1] = {7};
  cuts_check(c, in, n, FEED_WHOLE, want, SIZE_MAX, "whole");
  cuts_check(c, in, n, FEED_AT(n / 2), want, SIZE_MAX, "halves");
  cuts_check(c, in, n, FEED_AT(n ? n - 1 : 0), want, SIZE_MAX, "last byte alone");
  cuts_check(c, in, n, (feed_cuts){7, sevens, 1}, want, SIZE_MAX, "sevens");
}

/* No beginning of the n bytes may end well. */
static inline void cuts_truncated (const cuts_codec *c, const char *in, size_t n) {
  trace t = {0};
  for (size_t k = 0; k < n; k++) {
    ct_how("the first %zu of \"%s\"", k, ct_show(0, in, n));
    feed f = {c->step, c->codec, rooms_place, c->where, &t, PL_END};
    c->start(c->codec);
    feed_run(&f, in, k, FEED_WHOLE);
    CHECK(f.last != PL_END);
  }
  ct_how(NULL);
  trace_free(&t);
}

/* A string of n times c; the caller frees it. */
static inline char *repeat (char c, size_t n) {
  char *s = malloc(n + 1);
  if (s == NULL) exit(2);
  memset(s, c, n);
  s[n] = '\0';
  return s;
}

#endif
