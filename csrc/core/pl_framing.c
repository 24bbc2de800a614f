#include "pl_framing.h"
#include "pl_char.h"

static pl_err fail (pl_frame *f, pl_err e, uint32_t at) {
  f->err = e;
  f->err_at = at;
  return e;
}

static bool blank (char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* White space around an element, line ends of a folded value included. */
static pl_slice trim (pl_slice s) {
  while (s.n > 0 && blank(s.p[0])) s.p++, s.n--;
  while (s.n > 0 && blank(s.p[s.n - 1])) s.n--;
  return s;
}

/* Takes the next element off a comma-separated list (RFC 9110 5.6.1); false at the end. Empty ones are skipped. */
static bool next_element (pl_slice *list, pl_slice *element) {
  while (list->n > 0) {
    const char *comma = memchr(list->p, ',', list->n);
    size_t n = comma ? (size_t)(comma - list->p) : list->n;
    *element = trim((pl_slice){list->p, n});
    list->p += comma ? n + 1 : n;
    list->n -= comma ? n + 1 : n;
    if (element->n > 0) return true;
  }
  return false;
}

static void begin (const pl_head *h, pl_frame *f) {
  memset(f, 0, sizeof *f);
  for (uint32_t i = 0; i < h->nfields; i++) f->seen |= UINT32_C(1) << h->field[i].id;
}

/* Most heads have few of these fields: no search for those that are not there. */
static bool has (const pl_frame *f, pl_field_id id) { return f->seen >> id & 1; }

static uint32_t count (const pl_head *h, pl_field_id id, const pl_field **first) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->nfields; i++)
    if (h->field[i].id == id && n++ == 0 && first) *first = &h->field[i];
  return n;
}

/* 1*DIGIT without overflow (RFC 9110 8.6). */
static bool decimal (pl_slice s, uint64_t *out) {
  uint64_t v = 0;
  if (s.n == 0 || pl_span(s, PL_DIGIT) != s.n) return false;
  for (size_t i = 0; i < s.n; i++) {
    uint64_t d = (uint64_t)(s.p[i] - '0');
    if (v > (INT64_MAX - d) / 10) return false;
    v = v * 10 + d;
  }
  *out = v;
  return true;
}

static pl_err content_length (const pl_head *h, const char *p, pl_frame *f) {
  const pl_field *cl = NULL;
  if (!has(f, PL_F_CONTENT_LENGTH)) return PL_OK;
  uint32_t n = count(h, PL_F_CONTENT_LENGTH, &cl);
  for (uint32_t i = 0; i < h->nfields; i++)
    if (h->field[i].id == PL_F_CONTENT_LENGTH && !decimal(pl_value(&h->field[i], p), &f->length))
      return fail(f, PL_E_BAD_CONTENT_LENGTH, h->field[i].value);
  if (n > 1) return fail(f, PL_E_CONFLICTING_LENGTH, cl->name);
  f->body = PL_BODY_LENGTH;
  return PL_OK;
}

typedef struct codings {
  uint32_t chunked, others; /* how many of each */
  bool last_is_chunked, malformed;
} codings;

static void add_coding (codings *c, pl_slice coding) {
  bool chunked = PL_IS(coding, "chunked");
  size_t name = pl_span(coding, PL_TCHAR);
  pl_slice bare = {coding.p, name};
  if (name == 0 || (name < coding.n && coding.p[name] != ';' && coding.p[name] != ' ' && coding.p[name] != '\t'))
    c->malformed = true;
  if (!chunked && PL_IS(bare, "chunked")) c->malformed = true; /* chunked takes no parameters */
  c->chunked += chunked;
  c->others += !chunked;
  c->last_is_chunked = chunked;
}

static codings read_codings (const pl_head *h, const char *p) {
  codings c = {0};
  for (uint32_t i = 0; i < h->nfields; i++) {
    if (h->field[i].id != PL_F_TRANSFER_ENCODING) continue;
    if (h->field[i].folded) c.malformed = true; /* RFC 9112 5.2 lets a peer replace or refuse it: they may differ */
    pl_slice list = pl_value(&h->field[i], p), coding;
    while (next_element(&list, &coding)) add_coding(&c, coding);
  }
  return c;
}

/* Rules 3 and 4 of RFC 9112 6.3; leaves f alone when there is no Transfer-Encoding. */
static pl_err transfer_encoding (const pl_head *h, const char *p, pl_frame *f) {
  const pl_field *te = NULL;
  if (!has(f, PL_F_TRANSFER_ENCODING)) return PL_OK;
  count(h, PL_F_TRANSFER_ENCODING, &te);
  if (has(f, PL_F_CONTENT_LENGTH)) return fail(f, PL_E_TE_AND_CL, te->name);
  codings c = read_codings(h, p);
  if (h->minor == 0 || c.malformed || c.chunked > 1 || c.chunked + c.others == 0)
    return fail(f, PL_E_BAD_TRANSFER_ENCODING, te->value);
  f->body = c.last_is_chunked ? PL_BODY_CHUNKED : PL_BODY_CLOSE;
  if (h->kind == PL_RESPONSE) return PL_OK;
  if (c.chunked == 1 && !c.last_is_chunked) return fail(f, PL_E_BAD_TRANSFER_ENCODING, te->value);
  if (c.others > 0) return fail(f, PL_E_UNSUPPORTED_TRANSFER_ENCODING, te->value);
  return PL_OK;
}

typedef struct wishes {
  bool close, keep_alive, upgrade;
} wishes;

/* The connection options we know (RFC 9110 7.6.1). */
static wishes read_options (const pl_head *h, const char *p) {
  wishes o = {false, false, false};
  for (uint32_t i = 0; i < h->nfields; i++) {
    if (h->field[i].id != PL_F_CONNECTION) continue;
    pl_slice list = pl_value(&h->field[i], p), option;
    while (next_element(&list, &option)) {
      o.close |= PL_IS(option, "close");
      o.keep_alive |= PL_IS(option, "keep-alive");
      o.upgrade |= PL_IS(option, "upgrade");
    }
  }
  return o;
}

/* RFC 9112 9.3 and RFC 9110 7.8: HTTP/1.0 knows no Upgrade. */
static void connection (const pl_head *h, const char *p, pl_frame *f) {
  wishes o = {false, false, false};
  if (has(f, PL_F_CONNECTION)) o = read_options(h, p);
  f->keep_alive = !o.close && (h->minor > 0 || o.keep_alive);
  f->upgrade = h->minor > 0 && o.upgrade && has(f, PL_F_UPGRADE);
}

static bool port_valid (pl_slice v) { return pl_span(v, PL_DIGIT) == v.n; }

/* "[" address "]" [ ":" port ]; v begins with the bracket */
static bool literal_valid (pl_slice v) {
  const char *close = memchr(v.p, ']', v.n);
  if (pl_span(v, PL_HOST) != v.n || close == NULL || memchr(v.p + 1, '[', v.n - 1)) return false;
  pl_slice rest = {close + 1, v.n - (size_t)(close + 1 - v.p)};
  if (rest.n == 0) return true;
  return rest.p[0] == ':' && port_valid((pl_slice){rest.p + 1, rest.n - 1});
}

/* uri-host [ ":" port ] (RFC 9110 7.2); empty is allowed. */
static bool host_valid (pl_slice v) {
  size_t i = 0;
  if (v.n > 0 && v.p[0] == '[') return literal_valid(v);
  for (; i < v.n && v.p[i] != ':'; i++)
    if (!pl_is(v.p[i], PL_HOST) || v.p[i] == '[' || v.p[i] == ']') return false;
  return i == v.n || port_valid((pl_slice){v.p + i + 1, v.n - i - 1});
}

/* RFC 9112 3.2: exactly one on HTTP/1.1, at most one before. */
static pl_err host (const pl_head *h, const char *p, pl_frame *f) {
  const pl_field *first = NULL;
  uint32_t n = count(h, PL_F_HOST, &first);
  if (n == 0) return h->minor > 0 ? fail(f, PL_E_BAD_HOST, h->bytes) : PL_OK;
  if (n > 1 || !host_valid(pl_value(first, p))) return fail(f, PL_E_BAD_HOST, first->value);
  return PL_OK;
}

/* scheme "://" host: the absolute form of http and others (RFC 9112 3.2.2) */
static bool absolute_form (pl_slice t) {
  if (t.n == 0 || !pl_is(t.p[0], PL_ALPHA)) return false;
  size_t i = 1;
  while (i < t.n && (pl_is(t.p[i], PL_ALPHA | PL_DIGIT) || strchr("+-.", t.p[i]))) i++;
  return t.n - i > 3 && memcmp(t.p + i, "://", 3) == 0 && t.p[i + 3] != '/' && t.p[i + 3] != '?';
}

/* host ":" port, for CONNECT only (RFC 9112 3.2.3). What ends in a digit behind a colon is no "[...]" alone. */
static bool authority_form (pl_slice t) {
  bool has_port = t.p[0] != ':' && memchr(t.p, ':', t.n) && pl_is(t.p[t.n - 1], PL_DIGIT);
  return has_port && host_valid(t);
}

static pl_err target (const pl_head *h, const char *p, pl_frame *f) {
  pl_slice t = {p + h->target, h->target_len}, method = {p + h->method, h->method_len};
  bool connect = method.n == 7 && memcmp(method.p, "CONNECT", 7) == 0;
  bool options = method.n == 7 && memcmp(method.p, "OPTIONS", 7) == 0;
  bool star = t.n == 1 && t.p[0] == '*';
  bool ok = connect ? authority_form(t) : t.p[0] == '/' || (star && options) || absolute_form(t);
  return ok ? PL_OK : fail(f, PL_E_BAD_REQUEST_TARGET, h->target);
}

static void expect (const pl_head *h, const char *p, pl_frame *f) {
  const pl_field *e = NULL;
  if (!has(f, PL_F_EXPECT) || h->minor == 0) return; /* RFC 9110 10.1.1: ignored in HTTP/1.0 */
  f->expect = count(h, PL_F_EXPECT, &e) == 1 && PL_IS(pl_value(e, p), "100-continue") ? PL_EXPECT_CONTINUE : PL_EXPECT_OTHER;
}

pl_err pl_frame_request (const pl_head *h, const char *p, pl_frame *f) {
  begin(h, f);
  if (target(h, p, f) || host(h, p, f)) return f->err;
  if (transfer_encoding(h, p, f)) return f->err;
  if (f->body == PL_BODY_NONE && content_length(h, p, f)) return f->err;
  connection(h, p, f);
  expect(h, p, f);
  return PL_OK;
}

pl_err pl_frame_response (const pl_head *h, const char *p, pl_asked asked, pl_frame *f) {
  begin(h, f);
  connection(h, p, f);
  f->upgrade = h->status == 101 || (asked == PL_ASKED_CONNECT && h->status / 100 == 2);
  bool bodiless = asked == PL_ASKED_HEAD || h->status < 200 || h->status == 204 || h->status == 304;
  if (bodiless || f->upgrade) return PL_OK;
  if (transfer_encoding(h, p, f)) return f->err;
  if (f->body == PL_BODY_NONE && content_length(h, p, f)) return f->err;
  if (f->body == PL_BODY_NONE) f->body = PL_BODY_CLOSE;
  if (f->body == PL_BODY_CLOSE) f->keep_alive = false;
  return PL_OK;
}

/* Sorted by nothing but sense: framing, routing, request modifiers, authentication, content, cookies. */
static const char *const refused[] = {
    "transfer-encoding", "content-length", "host", "connection", "keep-alive", "upgrade", "trailer", "te",
    "proxy-connection", "http2-settings", "cache-control", "expect", "max-forwards", "pragma", "range", "if-match",
    "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "authorization", "proxy-authorization",
    "proxy-authenticate", "www-authenticate", "cookie", "set-cookie", "age", "date", "expires", "location",
    "retry-after", "vary", "warning", "content-encoding", "content-type", "content-range", "content-location",
    "content-disposition", "origin", "forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip",
    "x-original-url", "x-rewrite-url", "x-http-method", "x-http-method-override", "x-method-override",
};

bool pl_trailer_allowed (pl_slice name) {
  static const char proxy[] = "x-forwarded-"; /* -for, -host, -proto, -port, -prefix and what else proxies invent */
  if (name.n >= sizeof proxy - 1 && pl_ieq(name.p, sizeof proxy - 1, proxy, sizeof proxy - 1)) return false;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (pl_ieq(name.p, name.n, refused[i], strlen(refused[i]))) return false;
  return true;
}
