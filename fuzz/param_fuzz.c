/* Invariant: parameters are slices of the value in order and end; decoded text fits, is never longer, and a filename*
   is UTF-8; what a strict reader of RFC 9110 5.6.6 finds in a value, this one finds too. */
#include "fuzz.h"
#include "pl_param.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* token *( OWS ";" OWS token "=" ( token / quoted-string without escapes ) ), and the pairs as name=value lines. */
static bool strict (const char *p, size_t n, trace *t) {
  size_t i = 0, from = 0;
#define TAKE(is) for (from = i; i < n && is((unsigned char)p[i]); i++) {}
  TAKE(is_token);
  if (i == from) return false;
  while (i < n) {
    TAKE(is_blank);
    if (i == n) return true;
    if (p[i++] != ';') return false;
    TAKE(is_blank);
    TAKE(is_token);
    if (i == from || i == n || p[i] != '=') return false;
    trace_bytes(t, p + from, ++i - from);
    if (i < n && p[i] == '"') {
      for (from = ++i; i < n && p[i] != '"'; i++)
        if (!is_value((unsigned char)p[i]) || p[i] == '\\') return false;
      if (i == n) return false;
      trace_bytes(t, p + from, i++ - from);
    } else {
      TAKE(is_token);
      if (i == from) return false;
      trace_bytes(t, p + from, i - from);
    }
    trace_add(t, "\n");
  }
  return true;
}

/* UTF-8 by decoding and encoding: only what comes back the same is valid. */
static bool utf8 (const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n;) {
    size_t k = p[i] < 0x80 ? 1 : p[i] < 0xe0 ? 2 : p[i] < 0xf0 ? 3 : 4;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = k == 1 ? p[i] : p[i] & (0xffu >> (k + 1));
    if (p[i] >= 0xf8 || (p[i] & 0xc0) == 0x80 || i + k > n) return false;
    for (size_t j = 1; j < k; j++) {
      if ((p[i + j] & 0xc0) != 0x80) return false;
      c = c << 6 | (p[i + j] & 0x3f);
    }
    if (c < least[k] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return false;
    i += k;
  }
  return true;
}

static void inside (pl_slice s, const char *p, size_t n) {
  INVARIANT(s.p >= p && s.p + s.n <= p + n, "a slice lies in the value");
}

static void decoded (const pl_param *v) {
  char *out = malloc(v->value.n ? v->value.n : 1), *wide = malloc(2 * v->value.n + 1);
  for (int percent = 0; percent < 2; percent++)
    INVARIANT(pl_param_text(v, percent, out) <= v->value.n, "text is never longer");
  size_t n = pl_param_ext(v->value, wide);
  INVARIANT(n == SIZE_MAX || (n <= 2 * v->value.n && utf8((unsigned char *)wide, n)), "an ext-value is UTF-8");
  free(out);
  free(wide);
}

static int walk (pl_slice value, trace *t) {
  pl_params it;
  pl_param v;
  int got;
  const char *last = value.p;
  inside(pl_params_begin(&it, value), value.p, value.n);
  while ((got = pl_params_next(&it, &v)) == 1) {
    inside(v.name, value.p, value.n);
    inside(v.value, value.p, value.n);
    INVARIANT(v.name.p >= last && v.value.p >= v.name.p + v.name.n, "parameters come in order");
    last = v.value.p + v.value.n;
    decoded(&v);
    trace_bytes(t, v.name.p, v.name.n);
    trace_add(t, "=");
    trace_bytes(t, v.value.p, v.value.n);
    trace_add(t, "\n");
  }
  return got;
}

static void boundary (pl_slice value) {
  pl_slice b;
  bool form;
  if (pl_boundary_read(value, 70, &b, &form) != PL_OK) return;
  inside(b, value.p, value.n);
  INVARIANT(b.n >= 1 && b.n <= 70 && b.p[b.n - 1] != ' ', "a boundary that a delimiter line can hold");
  for (size_t i = 0; i < b.n; i++)
    INVARIANT(b.p[i] >= ' ' && b.p[i] < 0x7f && b.p[i] != '"', "no byte of it breaks the line");
  INVARIANT(b.p[-1] != '"' || !memchr(b.p, '\\', b.n), "no escape in it");
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size) {
  char *copy = malloc(size ? size : 1);
  trace want = {0}, got = {0};
  pl_disposition d;
  if (size > 0) memcpy(copy, data, size);
  pl_slice value = {copy, size};
  trace_clear(&want);
  trace_clear(&got);
  bool fine = strict(copy, size, &want);
  int answer = walk(value, &got);
  bool same = answer == 0 && want.n == got.n && memcmp(want.p, got.p, want.n) == 0;
  INVARIANT(!fine || same, "the strict reader's parameters\n want: %s\n got:  %s", want.p, got.p);
  if (pl_disposition_read(value, &d) == PL_OK) INVARIANT(answer == 0, "a disposition is a list of parameters");
  boundary(value);
  free(copy);
  trace_free(&want);
  trace_free(&got);
  return 0;
}
