#include "pl_head.h"
#include "pl_char.h"
#include "pl_head_state.h"
#include "pl_scan.h"
#include "pl_simd.h"

#define EMPTY_LINES_MAX 8 /* RFC 9112 2.2 asks to skip at least one before a request line */
#define METHOD_MAX 64     /* the longest registered one has 17 bytes */

enum { START = PL_HEAD_START, FIELDS = PL_HEAD_FIELDS, DONE = PL_HEAD_DONE, FAILED = PL_HEAD_FAILED };

void pl_head_init (pl_head *h, pl_head_kind kind, pl_head_limits max, pl_field *fields) {
  memset(h, 0, sizeof *h);
  h->kind = kind;
  h->max = max;
  h->field = fields;
  h->simd = pl_simd_best();
  pl_head_reset(h);
}

void pl_head_reset (pl_head *h) {
  h->state = h->kind == PL_REQUEST || h->kind == PL_RESPONSE ? START : FIELDS;
  h->empty_lines = 0;
  h->err = PL_OK;
  h->err_at = h->line = h->scan = h->bytes = 0;
  h->nfields = 0;
}

void pl_head_reset_fields (pl_head *h) {
  pl_head_reset(h);
  h->state = FIELDS;
}

/* Parts and trailers have one code for all syntax errors of a field. */
static pl_err code_for (const pl_head *h, pl_err e) {
  bool field = e == PL_E_BAD_HEADER_NAME || e == PL_E_BAD_HEADER_VALUE || e == PL_E_OBS_FOLD;
  if (h->kind == PL_PART_HEAD && field) return PL_E_BAD_HEADER;
  if (h->kind == PL_TRAILER && field) return PL_E_BAD_TRAILER;
  if (h->kind == PL_TRAILER && e == PL_E_HEADER_TOO_LARGE) return PL_E_TRAILER_TOO_LARGE;
  return e;
}

static pl_got fail (pl_head *h, pl_err e, size_t at) {
  h->state = FAILED;
  h->err = code_for(h, e);
  h->err_at = (uint32_t)at;
  return PL_FAIL;
}

/* HTTP/d.d at the beginning of s (RFC 9112 2.3). */
static bool version (pl_head *h, pl_slice s) {
  if (s.n < 8 || memcmp(s.p, "HTTP/", 5) != 0 || !pl_is(s.p[5], PL_DIGIT) || s.p[6] != '.' ||
      !pl_is(s.p[7], PL_DIGIT))
    return false;
  h->major = (uint8_t)(s.p[5] - '0');
  h->minor = (uint8_t)(s.p[7] - '0');
  return h->major == 1;
}

static size_t method_length (pl_slice l) {
  return pl_span((pl_slice){l.p, l.n < METHOD_MAX ? l.n : METHOD_MAX}, PL_TCHAR);
}

/* method SP request-target SP HTTP-version (RFC 9112 3); at: offset of the line, which has no line end. */
static pl_got request_line (pl_head *h, pl_slice l, uint32_t at) {
  size_t m = method_length(l);
  if (m == 0 || m == l.n || l.p[m] != ' ') return fail(h, PL_E_BAD_REQUEST_LINE, at + m);
  pl_slice rest = {l.p + m + 1, l.n - m - 1};
  size_t t = pl_span(rest, PL_TARGET);
  if (t > h->max.target) return fail(h, PL_E_URI_TOO_LONG, at + m + 1 + h->max.target);
  if (t < rest.n && rest.p[t] != ' ') return fail(h, PL_E_BAD_REQUEST_TARGET, at + m + 1 + t);
  if (t == 0 || t == rest.n) return fail(h, PL_E_BAD_REQUEST_LINE, at + m + 1 + t);
  pl_slice v = {rest.p + t + 1, rest.n - t - 1};
  size_t v_at = at + m + 1 + t + 1;
  if (v.n < 5 || memcmp(v.p, "HTTP/", 5) != 0) return fail(h, PL_E_BAD_REQUEST_LINE, v_at);
  if (v.n != 8 || !version(h, v)) return fail(h, PL_E_BAD_VERSION, v_at + 5);
  h->method = at;
  h->method_len = (uint32_t)m;
  h->target = at + (uint32_t)m + 1;
  h->target_len = (uint32_t)t;
  return PL_MORE;
}

/* HTTP-version SP 3DIGIT [ SP [ reason-phrase ] ] (RFC 9112 4). */
static pl_got status_line (pl_head *h, pl_slice l, uint32_t at) {
  if (l.n < 5 || memcmp(l.p, "HTTP/", 5) != 0) return fail(h, PL_E_BAD_STATUS_LINE, at);
  if (!version(h, l)) return fail(h, PL_E_BAD_VERSION, at + 5);
  pl_slice digits = {l.p + 9, l.n > 9 ? l.n - 9 : 0};
  if (l.n < 12 || l.p[8] != ' ' || pl_span(digits, PL_DIGIT) != 3 || digits.p[0] == '0')
    return fail(h, PL_E_BAD_STATUS_LINE, at + 8);
  h->status = (uint16_t)((l.p[9] - '0') * 100 + (l.p[10] - '0') * 10 + (l.p[11] - '0'));
  h->reason = at + 12;
  h->reason_len = 0;
  if (l.n == 12) return PL_MORE;
  if (l.p[12] != ' ') return fail(h, PL_E_BAD_STATUS_LINE, at + 12);
  pl_slice reason = {l.p + 13, l.n - 13};
  size_t ok = pl_span(reason, PL_VALUE);
  if (ok < reason.n) return fail(h, PL_E_BAD_STATUS_LINE, at + 13 + ok);
  h->reason = at + 13;
  h->reason_len = (uint32_t)reason.n;
  return PL_MORE;
}

/* field-name ":" OWS field-value OWS (RFC 9112 5). */
static pl_got field_line (pl_head *h, pl_slice l, uint32_t at) {
  if (h->nfields == h->max.fields) return fail(h, PL_E_HEADER_TOO_LARGE, at);
  size_t n = pl_span(l, PL_TCHAR);
  if (n == 0 || n == l.n || l.p[n] != ':') return fail(h, PL_E_BAD_HEADER_NAME, at + n);
  pl_slice v = {l.p + n + 1, l.n - n - 1};
  size_t ok = pl_span(v, PL_VALUE);
  if (ok < v.n) return fail(h, PL_E_BAD_HEADER_VALUE, at + n + 1 + ok);
  v = pl_trim(v);
  h->field[h->nfields++] = (pl_field){
      .name = at,
      .name_len = (uint32_t)n,
      .value = at + (uint32_t)(v.p - l.p),
      .value_len = (uint32_t)v.n,
      .id = (uint8_t)pl_field_known((pl_slice){l.p, n}),
  };
  return PL_MORE;
}

static bool blank (char c) { return c == ' ' || c == '\t'; }

static bool may_fold (const pl_head *h) { return h->kind == PL_RESPONSE || h->kind == PL_PART_HEAD; }

/* obs-fold (RFC 9112 5.2): the value of the field before goes on. */
static pl_got fold_line (pl_head *h, pl_slice l, uint32_t at) {
  if (h->nfields == 0) return fail(h, PL_E_BAD_HEADER_NAME, at);
  if (!may_fold(h)) return fail(h, PL_E_OBS_FOLD, at);
  size_t ok = pl_span(l, PL_VALUE);
  if (ok < l.n) return fail(h, PL_E_BAD_HEADER_VALUE, at + ok);
  pl_slice more = pl_trim(l);
  if (more.n == 0) return PL_MORE;
  pl_field *f = &h->field[h->nfields - 1];
  uint32_t end = at + (uint32_t)(more.p - l.p) + (uint32_t)more.n;
  if (f->value_len == 0)
    f->value = end - (uint32_t)more.n;
  else
    f->folded = true;
  f->value_len = end - f->value;
  return PL_MORE;
}

/* l: one line without its end. */
static pl_got take_line (pl_head *h, pl_slice l, uint32_t at) {
  if (h->state == START) {
    if (l.n == 0)
      return h->empty_lines++ < EMPTY_LINES_MAX ? PL_MORE : fail(h, PL_E_BAD_REQUEST_LINE, at);
    h->state = FIELDS;
    return h->kind == PL_REQUEST ? request_line(h, l, at) : status_line(h, l, at);
  }
  if (l.n == 0) {
    h->state = DONE;
    return PL_END;
  }
  return blank(l.p[0]) ? fold_line(h, l, at) : field_line(h, l, at);
}

/* The peeks find what can be refused in a line whose end is not in sight yet, with the code that the whole line would
   get: so a peer that speaks another protocol is told at once, and a target is cut off at its limit. They look at few
   bytes, since they may look again and again; l.n > 0. */
static pl_got peek_start (pl_head *h, pl_slice l, uint32_t at) {
  if (h->kind == PL_RESPONSE)
    return memcmp(l.p, "HTTP/", l.n < 5 ? l.n : 5) == 0 ? PL_MORE : status_line(h, l, at);
  size_t m = method_length(l);
  if (m == 0 || (m < l.n && l.p[m] != ' ')) return fail(h, PL_E_BAD_REQUEST_LINE, at + m);
  if (m == l.n || l.n - m - 1 <= h->max.target) return PL_MORE;
  pl_slice target = {l.p + m + 1, h->max.target + 1};
  size_t t = pl_span(target, PL_TARGET);
  bool over = t + 1 + sizeof "HTTP/1.1" < l.n - m - 1; /* no line end can make this one valid */
  return t == target.n || target.p[t] != ' ' || over ? request_line(h, l, at) : PL_MORE;
}

static pl_got peek_field (pl_head *h, pl_slice l, uint32_t at) {
  if (blank(l.p[0])) return h->nfields == 0 || !may_fold(h) ? fold_line(h, l, at) : PL_MORE;
  return h->nfields == h->max.fields || !pl_is(l.p[0], PL_TCHAR) ? field_line(h, l, at) : PL_MORE;
}

static pl_got peek (pl_head *h, pl_slice l, uint32_t at) {
  if (l.n == 0) return PL_MORE;
  return h->state == START ? peek_start(h, l, at) : peek_field(h, l, at);
}

/* A line that ends in a bare LF: refused, but for what is wrong before it if there is such a thing. */
static pl_got bare_lf (pl_head *h, pl_slice l, uint32_t at) {
  pl_got got = l.n == 0 ? PL_MORE : h->state == START ? request_line(h, l, at) : peek_field(h, l, at);
  if (got == PL_FAIL) return got;
  return fail(h, PL_E_BAD_LINE_ENDING, at + l.n);
}

pl_got pl_head_step (pl_head *h, const char *p, size_t n) {
  size_t limit = n < h->max.bytes ? n : h->max.bytes;
  if (n == 0) p = ""; /* NULL may stand for no bytes, but nothing may be added to it */
  if (h->state == FAILED) return PL_FAIL;
  while (h->state != DONE) {
    if (h->scan == 0 && h->simd->lines) { /* once at each line's start: then nothing is looked at again and again */
      h->simd->lines(h, p, limit);
      if (h->state == DONE) break;
    }
    size_t from = h->line + h->scan, left = limit - from;
    size_t i = pl_scan_byte(p + from, left, '\n');
    size_t len = h->scan + i;
    if (i == left) {
      h->scan = (uint32_t)len;
      pl_slice part = {p + h->line, len};
      if (len > 0 && part.p[len - 1] == '\r') part.n--; /* perhaps half of the line end */
      if (peek(h, part, h->line) == PL_FAIL) return PL_FAIL;
      return n >= h->max.bytes ? fail(h, PL_E_HEADER_TOO_LARGE, h->max.bytes) : PL_MORE;
    }
    uint32_t at = h->line;
    bool cr = len > 0 && p[at + len - 1] == '\r';
    if (!cr && h->kind != PL_RESPONSE) return bare_lf(h, (pl_slice){p + at, len}, at);
    h->line = at + (uint32_t)len + 1;
    h->scan = 0;
    if (take_line(h, (pl_slice){p + at, len - cr}, at) == PL_FAIL) return PL_FAIL;
  }
  h->bytes = h->line;
  return PL_END;
}

bool pl_head_idle (const pl_head *h, const char *p, size_t n) {
  if (h->state != START) return false;
  size_t left = n - h->line;
  return left == 0 || (left == 1 && p[h->line] == '\r');
}

size_t pl_unfold (pl_slice v, char *out) {
  size_t n = 0;
  for (size_t i = 0; i < v.n;) {
    size_t j = i;
    bool fold = false;
    for (; j < v.n && strchr(" \t\r\n", v.p[j]) && v.p[j]; j++) fold |= v.p[j] == '\n';
    if (fold) {
      out[n++] = ' ';
    } else {
      memmove(out + n, v.p + i, j - i);
      n += j - i;
    }
    for (i = j; i < v.n && !(v.p[i] && strchr(" \t\r\n", v.p[i])); i++) out[n++] = v.p[i];
  }
  return n;
}
