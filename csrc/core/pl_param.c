#include "pl_param.h"
#include "pl_char.h"
#include "pl_head.h"

/* CR and LF occur only where a field value is folded, which is white space too. */
static bool blank (char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void drop (pl_slice *s, size_t n) {
  s->p += n;
  s->n -= n;
}

static void skip_blanks (pl_slice *s) {
  while (s->n > 0 && blank(s->p[0])) drop(s, 1);
}

static pl_slice trim (pl_slice s) {
  skip_blanks(&s);
  while (s.n > 0 && blank(s.p[s.n - 1])) s.n--;
  return s;
}

/* The bytes up to c or the end. */
static size_t up_to (pl_slice s, char c) {
  const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
  return hit ? (size_t)(hit - s.p) : s.n;
}

pl_slice pl_params_begin (pl_params *it, pl_slice value) {
  size_t n = up_to(value, ';');
  pl_slice word = trim((pl_slice){value.p, n});
  *it = value;
  drop(it, n);
  return word;
}

/* The length of a quoted string's inside; s begins behind the quote. s.n when it is not closed. */
static size_t quoted_length (pl_slice s) {
  for (size_t i = 0; i < s.n; i++) {
    if (s.p[i] == '"') return i;
    if (s.p[i] == '\\' && i + 1 < s.n && s.p[i + 1] == '"') i++;
  }
  return s.n;
}

static int quoted_value (pl_params *it, pl_param *out) {
  drop(it, 1);
  size_t n = quoted_length(*it);
  if (n == it->n) return -1;
  out->value = (pl_slice){it->p, n};
  out->quoted = true;
  drop(it, n + 1);
  skip_blanks(it);
  return it->n == 0 || it->p[0] == ';' ? 1 : -1;
}

static int plain_value (pl_params *it, pl_param *out) {
  size_t n = up_to(*it, ';');
  out->value = trim((pl_slice){it->p, n});
  drop(it, n);
  return memchr(out->value.p, '"', out->value.n) ? -1 : 1;
}

int pl_params_next (pl_params *it, pl_param *out) {
  while (it->n > 0 && (it->p[0] == ';' || blank(it->p[0]))) drop(it, 1);
  if (it->n == 0) return 0;
  size_t n = 0;
  while (n < it->n && it->p[n] != '=' && it->p[n] != ';') n++;
  *out = (pl_param){.name = trim((pl_slice){it->p, n}), .value = {it->p + n, 0}};
  drop(it, n);
  if (memchr(out->name.p, '"', out->name.n)) return -1;
  if (it->n == 0 || it->p[0] == ';') return 1;
  drop(it, 1);
  skip_blanks(it); /* white space around "=" is what RFC 2045 inherits from RFC 822 */
  return it->n > 0 && it->p[0] == '"' ? quoted_value(it, out) : plain_value(it, out);
}

/* The byte that a browser's escape stands for, or 0. */
static char browser_escape (pl_slice s) {
  if (s.n < 3 || s.p[0] != '%') return 0;
  if (memcmp(s.p, "%22", 3) == 0) return '"';
  if (memcmp(s.p, "%0D", 3) == 0) return '\r';
  return memcmp(s.p, "%0A", 3) == 0 ? '\n' : 0;
}

size_t pl_param_text (const pl_param *v, bool percent, char *out) {
  pl_slice s = {out, pl_unfold(v->value, out)}; /* decoded in place: what is written never passes what is read */
  size_t n = 0;
  while (s.n > 0) {
    char c = percent ? browser_escape(s) : 0;
    bool quote = v->quoted && s.n > 1 && s.p[0] == '\\' && s.p[1] == '"';
    out[n++] = c ? c : quote ? '"' : s.p[0];
    drop(&s, c ? 3 : quote ? 2 : 1);
  }
  return n;
}

/* attr-char of RFC 8187 3.2.1: token without "*", "'" and "%" */
static bool attr_char (char c) { return pl_is(c, PL_TCHAR) && c != '*' && c != '\'' && c != '%'; }

/* One byte of value-chars; its length, or 0 when malformed. */
static size_t pct_byte (pl_slice s, unsigned char *out) {
  *out = (unsigned char)s.p[0];
  if (attr_char(s.p[0])) return 1;
  if (s.n < 3 || s.p[0] != '%' || pl_hex(s.p[1]) < 0 || pl_hex(s.p[2]) < 0) return 0;
  *out = (unsigned char)(pl_hex(s.p[1]) << 4 | pl_hex(s.p[2]));
  return 3;
}

/* The length of the valid UTF-8 sequence (RFC 3629) at the beginning of s, or 0. */
static size_t utf8_sequence (pl_slice s) {
  const unsigned char *u = (const unsigned char *)s.p;
  size_t n = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
  if (n == 0 || n > s.n) return 0;
  for (size_t i = 1; i < n; i++)
    if ((u[i] & 0xc0) != 0x80) return 0;
  bool overlong = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xf0 && u[1] < 0x90);
  bool outside = (u[0] == 0xed && u[1] >= 0xa0) || (u[0] == 0xf4 && u[1] >= 0x90);
  return overlong || outside ? 0 : n;
}

static bool utf8_valid (pl_slice s) {
  while (s.n > 0) {
    size_t n = utf8_sequence(s);
    if (n == 0) return false;
    drop(&s, n);
  }
  return true;
}

static size_t put_latin1 (unsigned char c, char *out) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  out[0] = (char)(0xc0 | c >> 6);
  out[1] = (char)(0x80 | (c & 0x3f));
  return 2;
}

size_t pl_param_ext (pl_slice v, char *out) {
  size_t charset = up_to(v, '\'');
  pl_slice name = {v.p, charset};
  bool latin1 = PL_IS(name, "iso-8859-1");
  if (charset == v.n || (!latin1 && !PL_IS(name, "utf-8"))) return SIZE_MAX;
  drop(&v, charset + 1);
  size_t language = up_to(v, '\'');
  if (language == v.n) return SIZE_MAX;
  drop(&v, language + 1);
  size_t n = 0;
  while (v.n > 0) {
    unsigned char c;
    size_t used = pct_byte(v, &c);
    if (used == 0) return SIZE_MAX;
    if (latin1) n += put_latin1(c, out + n);
    else out[n++] = (char)c;
    drop(&v, used);
  }
  return latin1 || utf8_valid((pl_slice){out, n}) ? n : SIZE_MAX;
}

/* Where a parameter of this name belongs, or NULL. */
static pl_param *slot (pl_disposition *d, pl_slice name) {
  if (PL_IS(name, "name")) return &d->name;
  if (PL_IS(name, "filename")) return &d->filename;
  return PL_IS(name, "filename*") ? &d->filename_ext : NULL;
}

pl_err pl_disposition_read (pl_slice value, pl_disposition *d) {
  pl_params it;
  pl_param param;
  int got;
  memset(d, 0, sizeof *d);
  d->type = pl_params_begin(&it, value);
  if (d->type.n == 0 || pl_span(d->type, PL_TCHAR) != d->type.n) return PL_E_BAD_DISPOSITION;
  while ((got = pl_params_next(&it, &param)) == 1) {
    pl_param *to = slot(d, param.name);
    if (to == NULL) continue;
    if (to->value.p) return PL_E_BAD_DISPOSITION;
    *to = param;
  }
  return got < 0 ? PL_E_BAD_DISPOSITION : PL_OK;
}

static const char multipart[] = "multipart/";

bool pl_is_multipart (pl_slice t) {
  size_t n = sizeof multipart - 1;
  return t.n > n && pl_ieq(t.p, n, multipart, n);
}

/* RFC 2046 5.1.1 has fewer characters, but clients in the wild use others ("*****"); what would break the delimiter
   line is refused, and a backslash in quotes, which some readers take for an escape and others for itself. */
static pl_err boundary_valid (const pl_param *v, size_t max) {
  pl_slice b = v->value;
  if (b.n == 0) return PL_E_NO_BOUNDARY;
  if (v->quoted && memchr(b.p, '\\', b.n)) return PL_E_INVALID_BOUNDARY;
  if (b.n > max) return PL_E_BOUNDARY_TOO_LONG;
  for (size_t i = 0; i < b.n; i++)
    if ((unsigned char)b.p[i] < 0x20 || (unsigned char)b.p[i] >= 0x7f || b.p[i] == '"') return PL_E_INVALID_BOUNDARY;
  return b.p[b.n - 1] == ' ' ? PL_E_INVALID_BOUNDARY : PL_OK;
}

pl_err pl_boundary_read (pl_slice content_type, size_t max, pl_slice *boundary, bool *is_form) {
  pl_params it;
  pl_param param;
  int got;
  bool seen = false;
  pl_slice type = pl_params_begin(&it, content_type);
  if (!pl_is_multipart(type)) return PL_E_BAD_CONTENT_TYPE;
  pl_slice subtype = {type.p + sizeof multipart - 1, type.n - (sizeof multipart - 1)};
  if (pl_span(subtype, PL_TCHAR) != subtype.n) return PL_E_BAD_CONTENT_TYPE;
  *is_form = PL_IS(subtype, "form-data");
  pl_param found = {0};
  while ((got = pl_params_next(&it, &param)) == 1) {
    if (!PL_IS(param.name, "boundary")) continue;
    if (seen) return PL_E_DUPLICATE_BOUNDARY;
    seen = true;
    found = param;
  }
  *boundary = found.value;
  return got < 0 ? PL_E_BAD_CONTENT_TYPE : boundary_valid(&found, max);
}
