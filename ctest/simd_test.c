/* The vector sets: each against the portable code, on mutated heads and hostile needles of every length and alignment,
   with a dead page right behind the bytes and right before them. */
#include "ctest.h"
#include "pl_head.h"
#include "pl_scan.h"
#include "pl_simd.h"

enum { FIELDS = 24, ROOM = 8192 };

static uint32_t seed = 7;
static uint32_t rnd (void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

/* ---- heads ---- */

typedef struct outcome {
  pl_head h;
  pl_field field[FIELDS];
  pl_got got;
} outcome;

static void read_head (outcome *o, const pl_simd *set, pl_head_kind kind, const char *p, size_t n, size_t first) {
  pl_head_limits max = {4096, FIELDS, 512};
  memset(o, 0, sizeof *o);
  pl_head_init(&o->h, kind, max, o->field);
  o->h.simd = set;
  if (first < n) pl_head_step(&o->h, p, first);
  o->got = pl_head_step(&o->h, p, n);
}

static bool same_field (const pl_field *a, const pl_field *b) {
  return a->name == b->name && a->name_len == b->name_len && a->value == b->value && a->value_len == b->value_len &&
         a->id == b->id && a->folded == b->folded;
}

static bool same (const outcome *a, const outcome *b) {
  const pl_head *g = &a->h, *h = &b->h;
  if (a->got != b->got || g->err != h->err || g->err_at != h->err_at) return false;
  if (a->got == PL_FAIL) return true;
  if (g->nfields != h->nfields || g->bytes != h->bytes || g->line != h->line || g->state != h->state) return false;
  if (g->method_len != h->method_len || g->target != h->target || g->target_len != h->target_len ||
      g->minor != h->minor || g->major != h->major)
    return false;
  for (uint32_t i = 0; i < g->nfields; i++)
    if (!same_field(&a->field[i], &b->field[i])) return false;
  return true;
}

static const char *const names[] = {"Host", "content-length", "Transfer-Encoding", "Connection", "X", "Accept-Language",
                                    "expect", "UPGRADE", "Set-Cookie", "Content-Type", "Content-Disposition", "tE",
                                    "a-name-that-is-longer-than-a-block-of-sixty-four-bytes-so-that-its-colon-is-far-away"};

static size_t put (char *to, size_t at, const char *s) {
  size_t n = strlen(s);
  memcpy(to + at, s, n);
  return at + n;
}

static size_t filler (char *to, size_t at, size_t n) {
  for (size_t i = 0; i < n; i++) to[at + i] = (char)('a' + (at + i) % 26);
  return at + n;
}

/* A valid head of about `fields` fields, lines of any length, perhaps with a body behind it. */
static size_t make_head (char *to, pl_head_kind kind) {
  size_t n = 0;
  if (kind == PL_REQUEST) {
    n = put(to, put(to, 0, rnd() % 2 ? "GET /" : "OPTIONS /"), "");
    n = put(to, filler(to, n, rnd() % 4 ? rnd() % 60 : rnd() % 520), rnd() % 3 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  }
  for (uint32_t i = rnd() % (FIELDS + 2); i > 0; i--) {
    n = put(to, n, names[rnd() % (sizeof names / sizeof *names)]);
    n = put(to, n, rnd() % 4 ? ": " : rnd() % 2 ? ":" : ":   ");
    n = put(to, filler(to, n, rnd() % 90), rnd() % 5 ? "\r\n" : "  \r\n");
  }
  n = put(to, n, "\r\n");
  return rnd() % 3 ? n : filler(to, n, rnd() % 100);
}

/* One or two bytes become something that matters. */
static void mutate (char *p, size_t n) {
  static const char bytes[] = "\r\n\t :\0\x7f\x80\xff\x1f(/\"@[{ZG";
  for (uint32_t i = rnd() % 3; i > 0 && n > 0; i--) p[rnd() % n] = bytes[rnd() % (sizeof bytes - 1)];
}

static void compare_heads (const pl_simd *set, const pl_simd *portable, pl_head_kind kind, const char *p, size_t n) {
  static outcome a, b;
  size_t first = rnd() % 3 ? n : rnd() % (n + 1);
  read_head(&a, set, kind, p, n, first);
  read_head(&b, portable, kind, p, n, first);
  if (same(&a, &b)) return;
  ct_how("%s, kind %d, %d bytes, first %d: got %d %d, err %d %d at %u %u", set->name, (int)kind, (int)n, (int)first,
         (int)a.got, (int)b.got, (int)a.h.err, (int)b.h.err, a.h.err_at, b.h.err_at);
  CHECK(same(&a, &b));
}

static void heads (const pl_simd *set, const pl_simd *portable) {
  static char bytes[ROOM];
  ct_guard g;
  ct_guard_open(&g, ROOM);
  for (int round = 0; round < 20000; round++) {
    static const pl_head_kind kinds[] = {PL_REQUEST, PL_REQUEST, PL_TRAILER, PL_PART_HEAD};
    pl_head_kind kind = kinds[rnd() % 4];
    size_t n = make_head(bytes, kind);
    mutate(bytes, n);
    if (rnd() % 4 == 0) n = rnd() % (n + 1);
    compare_heads(set, portable, kind, ct_guard_tail(&g, bytes, n), n);
    compare_heads(set, portable, kind, ct_guard_head(&g, bytes, n), n);
  }
  CHECK(true); /* the comparisons above count only when they fail */
  ct_guard_close(&g);
}

/* Each byte value at each place of a small head. */
static void every_byte (const pl_simd *set, const pl_simd *portable) {
  static const char head[] = "GET /abc HTTP/1.1\r\nHost: example.com\r\nConnection: close, x\r\nX-Y:  z \r\n\r\n";
  size_t n = sizeof head - 1;
  ct_guard g;
  ct_guard_open(&g, n);
  for (size_t i = 0; i < n; i++)
    for (int c = 0; c < 256; c++) {
      char bytes[sizeof head];
      memcpy(bytes, head, n);
      bytes[i] = (char)c;
      compare_heads(set, portable, PL_REQUEST, ct_guard_tail(&g, bytes, n), n);
    }
  CHECK(true);
  ct_guard_close(&g);
}

/* Names that end with the input, far from any colon. */
static void long_names (const pl_simd *set, const pl_simd *portable) {
  char bytes[200];
  ct_guard g;
  ct_guard_open(&g, sizeof bytes);
  for (size_t start = 0; start < 70; start++)
    for (size_t n = 40; n < 80; n++) {
      size_t all = 0;
      if (start > 3) all = put(bytes, filler(bytes, put(bytes, 0, "a:"), start - 4), "\r\n");
      all = put(bytes, filler(bytes, all, n), "\r\n");
      compare_heads(set, portable, PL_TRAILER, ct_guard_tail(&g, bytes, all), all);
    }
  CHECK(true);
  ct_guard_close(&g);
}

/* ---- needles ---- */

static void fill_hostile (char *to, size_t n, pl_slice d) {
  for (size_t i = 0; i < n;) {
    size_t k = 1;
    switch (rnd() % 6) {
    case 0: to[i] = d.p[0]; break;
    case 1: to[i] = d.p[d.n - 1]; break;
    case 2: to[i] = (char)rnd(); break;
    case 3: to[i] = '-'; break;
    default:
      k = rnd() % 3 ? d.n - rnd() % 2 : 1 + rnd() % d.n;
      if (k > n - i) k = n - i;
      memcpy(to + i, d.p, k);
      if (rnd() % 2) to[i + rnd() % k] ^= 1;
    }
    i += k;
  }
}

static void needles (const pl_simd *set) {
  static const char *const delimiters[] = {"\r\n--b", "\n--b", "\r\n--boundary", "\r\n------WebKitFormBoundaryA1B2C3D4E5F6",
                                           "\r\n--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  static char bytes[ROOM];
  ct_guard g;
  ct_guard_open(&g, ROOM);
  for (size_t d = 0; d < sizeof delimiters / sizeof *delimiters; d++) {
    pl_slice needle = {delimiters[d], strlen(delimiters[d])};
    for (size_t n = 0; n <= 600; n++)
      for (int round = 0; round < 6; round++) {
        fill_hostile(bytes, n, needle);
        const char *p = round % 2 ? ct_guard_tail(&g, bytes, n) : ct_guard_head(&g, bytes, n);
        size_t got = set->needle(p, n, needle), want = pl_scan_needle(p, n, needle);
        if (got != want) {
          ct_how("%s, needle %d, %d bytes", set->name, (int)d, (int)n);
          CHECK_INT(got, want);
        }
      }
    CHECK(true);
  }
  ct_guard_close(&g);
}

int main (void) {
  const pl_simd *sets[PL_SIMD_MAX];
  size_t n = pl_simd_all(sets);
  const pl_simd *portable = sets[n - 1];
  CHECK(strcmp(portable->name, "portable") == 0);
  CHECK(pl_simd_best() == sets[0]);
  CHECK(pl_simd_named("portable") == portable);
  CHECK(pl_simd_named("none of these") == NULL);
  for (size_t i = 0; i + 1 < n; i++) {
    CHECK(pl_simd_named(sets[i]->name) == sets[i]);
    heads(sets[i], portable);
    every_byte(sets[i], portable);
    long_names(sets[i], portable);
    needles(sets[i]);
  }
  return ct_done();
}
