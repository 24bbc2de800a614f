#include "pl_url.h"
#include "pl_char.h"

/* ---- the parts ---- */

/* The bytes of s before the first one that is in the set, or all. */
static size_t until (pl_slice s, const char *set) {
  size_t i = 0;
  while (i < s.n && (s.p[i] == '\0' || strchr(set, s.p[i]) == NULL)) i++;
  return i;
}

static pl_slice take (pl_slice *s, size_t n) {
  pl_slice taken = {s->p, n};
  s->p += n;
  s->n -= n;
  return taken;
}

/* Takes what stands behind the mark at the front of *s, up to one of the set; absent when the mark is not there. */
static pl_slice marked (pl_slice *s, char mark, const char *set) {
  if (s->n == 0 || s->p[0] != mark) return (pl_slice){NULL, 0};
  take(s, 1);
  return take(s, until(*s, set));
}

/* ALPHA *( ALPHA / DIGIT / "+" / "-" / "." ) before a ":" (RFC 3986 3.1) */
static size_t scheme_length (pl_slice s) {
  if (s.n == 0 || !pl_is(s.p[0], PL_ALPHA)) return 0;
  size_t i = 1;
  while (i < s.n && (pl_is(s.p[i], PL_ALPHA | PL_DIGIT) || s.p[i] == '+' || s.p[i] == '-' || s.p[i] == '.')) i++;
  return i < s.n && s.p[i] == ':' ? i : 0;
}

/* The last "@" ends the userinfo: a careless one in a password cannot move the host. */
static size_t last_at (pl_slice s) {
  size_t i = s.n;
  while (i > 0 && s.p[i - 1] != '@') i--;
  return i;
}

/* Where the port's ":" is, or s.n. */
static size_t host_length (pl_slice s) {
  size_t i = 0;
  if (s.n > 0 && s.p[0] == '[') {
    while (i < s.n && s.p[i] != ']') i++;
    return i < s.n ? i + 1 : 0; /* not closed: not a host */
  }
  while (i < s.n && s.p[i] != ':') i++;
  return i;
}

static bool literal_inside (pl_slice host) {
  for (size_t i = 1; i + 1 < host.n; i++)
    if (!pl_is(host.p[i], PL_HEX | PL_ALPHA) && host.p[i] != ':' && host.p[i] != '.' && host.p[i] != '%') return false;
  return host.n > 2;
}

static bool good_host (pl_slice host) {
  if (host.n > 0 && host.p[0] == '[') return literal_inside(host);
  for (size_t i = 0; i < host.n; i++) {
    char c = host.p[i];
    if (c == '[' || c == ']' || !(pl_is(c, PL_HOST) || (unsigned char)c >= 0x80)) return false;
  }
  return true;
}

/* Strict enough that nobody else finds the host elsewhere: no backslash, no bracket. */
static bool good_userinfo (pl_slice s) {
  for (size_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (c == '[' || c == ']' || !(pl_is(c, PL_HOST) || c == '@' || c == ',' || (unsigned char)c >= 0x80)) return false;
  }
  return true;
}

static bool good_port (pl_slice port) {
  uint32_t v = 0;
  for (size_t i = 0; i < port.n; i++) {
    if (!pl_is(port.p[i], PL_DIGIT)) return false;
    v = v * 10 + (uint32_t)(port.p[i] - '0');
    if (v > 65535) return false;
  }
  return true;
}

/* [ userinfo "@" ] host [ ":" port ] (RFC 3986 3.2). The part at fault, or NULL. */
static const char *split_authority (pl_slice s, pl_url *u) {
  size_t at = last_at(s);
  if (at > 0) {
    u->userinfo = (pl_slice){s.p, at - 1};
    if (!good_userinfo(u->userinfo)) return s.p;
    take(&s, at);
  }
  size_t n = host_length(s);
  u->host = take(&s, n);
  if (!good_host(u->host) || (n == 0 && s.n > 0 && s.p[0] == '[')) return u->host.p;
  if (s.n == 0) return NULL;
  if (s.p[0] != ':') return s.p;
  take(&s, 1);
  u->port = s;
  return good_port(s) ? NULL : s.p;
}

static pl_err fault (pl_slice s, const char *p, size_t *at) {
  *at = (size_t)(p - s.p);
  return PL_E_BAD_URL;
}

pl_err pl_url_split (pl_slice s, pl_url *u, size_t *at) {
  pl_slice all = s;
  memset(u, 0, sizeof *u);
  size_t fine = pl_span(s, PL_TARGET), n = scheme_length(s);
  if (fine < s.n) return fault(all, s.p + fine, at);
  if (n > 0) {
    u->scheme = take(&s, n);
    take(&s, 1);
  }
  if (s.n >= 2 && s.p[0] == '/' && s.p[1] == '/') {
    take(&s, 2);
    const char *bad = split_authority(take(&s, until(s, "/?#")), u);
    if (bad) return fault(all, bad, at);
  }
  u->path = take(&s, until(s, "?#"));
  u->query = marked(&s, '?', "#");
  u->fragment = marked(&s, '#', "");
  return PL_OK;
}

/* ---- percent coding ---- */

/* Beside letters and digits. */
static const char *const kept[] = {
    [PL_KEEP_UNRESERVED] = "-._~",
    [PL_KEEP_PATH] = "-._~!$&'()*+,;=:@/",
    [PL_KEEP_QUERY] = "-._~!$&'()*+,;=:@/?",
    [PL_KEEP_FORM] = "*-._",
    [PL_KEEP_URL] = "-._~!$&'()*+,;=:@/?#[]%",
};

size_t pl_url_encode (pl_slice s, pl_url_keep keep, char *out) {
  static const char digit[] = "0123456789ABCDEF";
  char *to = out;
  for (size_t i = 0; i < s.n; i++) {
    unsigned char c = (unsigned char)s.p[i];
    if (pl_is((char)c, PL_ALPHA | PL_DIGIT) || (c != 0 && strchr(kept[keep], c) != NULL)) {
      *to++ = (char)c;
    } else if (c == ' ' && keep == PL_KEEP_FORM) {
      *to++ = '+';
    } else {
      *to++ = '%';
      *to++ = digit[c >> 4];
      *to++ = digit[c & 15];
    }
  }
  return (size_t)(to - out);
}

size_t pl_url_decode (pl_slice s, bool plus, char *out) {
  char *to = out;
  for (size_t i = 0; i < s.n; i++) {
    int high = -1, low = -1;
    char c = s.p[i];
    if (c == '%' && s.n - i > 2) {
      high = pl_hex(s.p[i + 1]);
      low = pl_hex(s.p[i + 2]);
    }
    if (high >= 0 && low >= 0) {
      c = (char)(high << 4 | low);
      i += 2;
    } else if (c == '+' && plus) {
      c = ' ';
    }
    *to++ = c;
  }
  return (size_t)(to - out);
}

/* ---- pairs ---- */

static size_t up_to (pl_slice s, char c) {
  const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
  return hit ? (size_t)(hit - s.p) : s.n;
}

bool pl_url_pair (pl_slice *rest, pl_slice *name, pl_slice *value) {
  while (rest->n > 0) {
    pl_slice piece = take(rest, up_to(*rest, '&'));
    if (rest->n > 0) take(rest, 1);
    if (piece.n == 0) continue;
    *name = take(&piece, up_to(piece, '='));
    if (piece.n > 0) take(&piece, 1);
    *value = piece;
    return true;
  }
  return false;
}
