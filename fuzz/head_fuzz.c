/* Invariant: a head fed whole and cut gives the same fields, error and offset, and is accepted if and only if a naive
   reader of RFC 9112 accepts it; framing never answers what two readers could take differently. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Bytes of the line at p without its end; *next: where the next one begins, 0 when there is no LF. */
static size_t line (const char *p, size_t n, size_t *next) {
  const char *lf = n ? memchr(p, '\n', n) : NULL;
  *next = lf ? (size_t)(lf - p) + 1 : 0;
  return lf && lf > p && lf[-1] == '\r' ? (size_t)(lf - p) - 1 : lf ? (size_t)(lf - p) : n;
}

static bool all (const char *p, size_t n, bool (*is) (unsigned char)) {
  for (size_t i = 0; i < n; i++)
    if (!is((unsigned char)p[i])) return false;
  return true;
}

static bool is_visible (unsigned char c) { return c > ' ' && c != 0x7f; }

static bool request_line (const char *p, size_t n) {
  const char *a = n ? memchr(p, ' ', n) : NULL;
  const char *b = a ? memchr(a + 1, ' ', n - (size_t)(a + 1 - p)) : NULL;
  if (b == NULL) return false;
  size_t m = (size_t)(a - p), t = (size_t)(b - a) - 1, v = n - m - t - 2;
  bool version = v == 8 && memcmp(b + 1, "HTTP/1.", 7) == 0 && b[8] >= '0' && b[8] <= '9';
  return m > 0 && all(p, m, is_token) && t > 0 && all(a + 1, t, is_visible) && version;
}

static bool status_line (const char *p, size_t n) {
  if (n < 12 || memcmp(p, "HTTP/1.", 7) != 0 || p[7] < '0' || p[7] > '9' || p[8] != ' ') return false;
  for (int i = 9; i < 12; i++)
    if (p[i] < '0' || p[i] > '9') return false;
  return p[9] != '0' && (n == 12 || (p[12] == ' ' && all(p + 13, n - 13, is_value)));
}

static bool field_line (const char *p, size_t n) {
  const char *colon = n ? memchr(p, ':', n) : NULL;
  if (colon == NULL || colon == p) return false;
  return all(p, (size_t)(colon - p), is_token) && all(colon + 1, n - (size_t)(colon + 1 - p), is_value);
}

/* The length of a well-formed section, 0 when it is not one or not whole; limits apart. */
static size_t naive (pl_head_kind kind, const char *p, size_t n) {
  bool lax = kind == PL_RESPONSE, folds = lax || kind == PL_PART_HEAD;
  bool started = kind == PL_TRAILER || kind == PL_PART_HEAD;
  size_t at = 0, next, fields = 0;
  for (;; at += next) {
    size_t k = line(p + at, n - at, &next);
    const char *l = p + at;
    if (next == 0 || (k + 2 != next && !lax)) return 0;
    if (k == 0 && started) return at + next;
    if (k == 0) continue;
    if (!started) {
      if (!(kind == PL_REQUEST ? request_line(l, k) : status_line(l, k))) return 0;
      started = true;
    } else if (is_blank((unsigned char)l[0])) {
      if (!folds || fields == 0 || !all(l, k, is_value)) return 0;
    } else if (field_line(l, k)) fields++;
    else return 0;
  }
}

/* Codes that a well-formed head may get all the same: for its size, a long method, many empty lines. */
static bool limited (pl_err e) {
  return e == PL_E_HEADER_TOO_LARGE || e == PL_E_URI_TOO_LONG || e == PL_E_TRAILER_TOO_LARGE ||
         e == PL_E_BAD_REQUEST_LINE || e == PL_E_BAD_STATUS_LINE;
}

static uint32_t count (const head_codec *c, const char *p, const char *name) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->h.nfields; i++) {
    pl_slice is = pl_name(&c->h.field[i], p);
    n += pl_ieq(is.p, is.n, name, strlen(name));
  }
  return n;
}

static void check_request (const head_codec *c, const char *p) {
  pl_frame f;
  if (pl_frame_request(&c->h, p, &f) != PL_OK) {
    INVARIANT(f.err_at <= c->h.bytes, "the offset lies in the head");
    return;
  }
  uint32_t te = count(c, p, "transfer-encoding"), cl = count(c, p, "content-length"), host = count(c, p, "host");
  INVARIANT(te == 0 || cl == 0, "not both lengths");
  pl_body want = te ? PL_BODY_CHUNKED : cl ? PL_BODY_LENGTH : PL_BODY_NONE;
  INVARIANT(f.body == want, "the body is what the one field says");
  INVARIANT(cl <= 1 && host <= 1 && (host == 1 || c->h.minor == 0), "one Content-Length, one Host");
  INVARIANT(te == 0 || c->h.minor > 0, "no Transfer-Encoding on HTTP/1.0");
  INVARIANT(f.length <= INT64_MAX, "a length that Lua can count");
}

static void check_response (const head_codec *c, const char *p, unsigned options) {
  pl_frame f;
  if (pl_frame_response(&c->h, p, (pl_asked)(options / 4 % 3), &f) != PL_OK) return;
  INVARIANT(f.body != PL_BODY_CLOSE || !f.keep_alive, "a body up to the close ends the connection");
  INVARIANT(f.body != PL_BODY_LENGTH || count(c, p, "content-length") == 1, "one Content-Length");
  INVARIANT(f.body != PL_BODY_CHUNKED || count(c, p, "content-length") == 0, "not both lengths");
}

/* The ids, one by one. */
static void check_ids (const head_codec *c, const char *p) {
  static const struct { const char *name; pl_field_id id; } known[] = {
      {"host", PL_F_HOST}, {"content-length", PL_F_CONTENT_LENGTH}, {"transfer-encoding", PL_F_TRANSFER_ENCODING},
      {"connection", PL_F_CONNECTION}, {"expect", PL_F_EXPECT}, {"upgrade", PL_F_UPGRADE},
      {"content-type", PL_F_CONTENT_TYPE}, {"content-disposition", PL_F_CONTENT_DISPOSITION},
      {"set-cookie", PL_F_SET_COOKIE}, {"content-encoding", PL_F_CONTENT_ENCODING},
  };
  for (uint32_t i = 0; i < c->h.nfields; i++) {
    pl_field_id want = PL_F_OTHER;
    pl_slice is = pl_name(&c->h.field[i], p);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
      if (pl_ieq(is.p, is.n, known[k].name, strlen(known[k].name))) want = known[k].id;
    INVARIANT(c->h.field[i].id == want, "a field is known by its name");
  }
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  fuzz_input in;
  trace t = {0};
  if (!fuzz_read(data, size, &in)) return 0;
  bool tight = in.options & 64;
  head_codec c = {.kind = (pl_head_kind)(in.options % 4), .simd = fuzz_set(in.options >> 3),
                  .max = {tight ? 200 : 4096, tight ? 3 : CODEC_FIELDS, tight ? 20 : 2048}};
  size_t used, want = naive(c.kind, in.p, in.n);
  bool ended = fuzz_both(head_feed, head_start, &c, &in, &t, &used) == PL_END;
  INVARIANT(!ended || used == want, "accepts %zu bytes, the naive reader %zu", used, want);
  INVARIANT(ended || want == 0 || limited(c.h.err), "refuses what the naive reader takes: %s", t.p);
  INVARIANT(c.h.err_at <= in.n, "the offset lies in the input");
  char *unit = malloc(used ? used : 1);
  if (used > 0) memcpy(unit, in.p, used);
  if (ended) check_ids(&c, unit);
  if (ended && c.kind == PL_REQUEST) check_request(&c, unit);
  if (ended && c.kind == PL_RESPONSE) check_response(&c, unit, in.options);
  free(unit);
  trace_free(&t);
  return 0;
}
