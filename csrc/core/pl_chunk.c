#include "pl_chunk.h"
#include "pl_char.h"

/* Named for what is expected next. */
enum { SIZE,        /* hex digits, then what after_word says */
       SIZE_BLANK,  /* white space after the size: ";" follows (in a response perhaps CR) */
       EXT_START,   /* after ";": a name, white space before it allowed (BWS) */
       EXT_NAME,    /* rest of the name, then "=" or what after_word says */
       NAME_BLANK,  /* white space after a name: "=" or ";" follows */
       EXT_VALUE,   /* after "=": a token or a quote, white space before it allowed */
       EXT_TOKEN,   /* rest of a token value */
       EXT_QUOTED,  /* inside quotes */
       EXT_ESCAPE,  /* after a backslash inside quotes */
       EXT_END,     /* after the closing quote */
       VALUE_BLANK, /* white space after a value: ";" follows */
       SIZE_LF,    /* the LF of a size line */
       DATA,       /* left bytes of content */
       DATA_CR,    /* the CRLF behind the content */
       DATA_LF,
       TRAILER,    /* field lines up to an empty one */
       DONE,
       FAILED };

void pl_chunk_init (pl_chunk *c, pl_chunk_limits max, bool lenient, pl_head *trailer) {
  memset(c, 0, sizeof *c);
  c->max = max;
  c->lenient = lenient;
  c->trailer = trailer;
}

static pl_got fail (pl_chunk *c, pl_err e, uint64_t at) {
  c->state = FAILED;
  c->err = e;
  c->err_at = at;
  return PL_FAIL;
}

static void next_size (pl_chunk *c) {
  c->state = SIZE;
  c->left = 0;
  c->digits = 0;
  c->seen_digit = c->has_ext = false;
  c->line = 0;
}

/* One more digit of the size; the answer is PL_OK or what is wrong with it. */
static pl_err digit (pl_chunk *c, int value) {
  c->seen_digit = true;
  if (c->digits == 0 && value == 0) return PL_OK; /* leading zeros count only against the line */
  if (++c->digits > 16 || c->left > (uint64_t)INT64_MAX >> 4) return PL_E_CHUNK_SIZE_OVERFLOW;
  c->left = c->left << 4 | (uint64_t)value;
  return PL_OK;
}

/* The state after ch when a size, a name or a value may end here; -1: ch may not stand here. */
static int after_word (char ch, int blank_state) {
  if (ch == ';') return EXT_START;
  if (ch == '\r') return SIZE_LF;
  return ch == ' ' || ch == '\t' ? blank_state : -1;
}

/* The same after white space, which the grammar allows (BWS) only before ";" and "="; before CR in a response. */
static int after_blank (const pl_chunk *c, char ch) {
  return ch == '\r' && !c->lenient ? -1 : after_word(ch, c->state);
}

static pl_err size_char (pl_chunk *c, char ch) {
  int value = pl_hex(ch);
  if (value >= 0) return digit(c, value);
  if (!c->seen_digit) return PL_E_BAD_CHUNK_SIZE;
  if (ch == '\n') return PL_E_BAD_LINE_ENDING;
  int next = after_word(ch, SIZE_BLANK);
  if (next < 0) return PL_E_BAD_CHUNK_SIZE;
  c->has_ext = next == EXT_START;
  c->state = (uint8_t)next;
  return PL_OK;
}

/* chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] ), RFC 9112 7.1.1 */
static int ext_next (const pl_chunk *c, char ch) {
  bool token = pl_is(ch, PL_TCHAR), blank = ch == ' ' || ch == '\t';
  switch (c->state) {
  case SIZE_BLANK:
  case VALUE_BLANK: return after_blank(c, ch);
  case EXT_START: return blank ? EXT_START : token ? EXT_NAME : -1;
  case EXT_NAME: return token ? EXT_NAME : ch == '=' ? EXT_VALUE : after_word(ch, NAME_BLANK);
  case NAME_BLANK: return ch == '=' ? EXT_VALUE : after_blank(c, ch);
  case EXT_VALUE: return blank ? EXT_VALUE : ch == '"' ? EXT_QUOTED : token ? EXT_TOKEN : -1;
  case EXT_TOKEN: return token ? EXT_TOKEN : after_word(ch, VALUE_BLANK);
  case EXT_QUOTED:
    return ch == '"' ? EXT_END : ch == '\\' ? EXT_ESCAPE : pl_is(ch, PL_QDTEXT) ? EXT_QUOTED : -1;
  case EXT_ESCAPE: return pl_is(ch, PL_VALUE) ? EXT_QUOTED : -1;
  default: return after_word(ch, VALUE_BLANK); /* EXT_END */
  }
}

static pl_err ext_char (pl_chunk *c, char ch) {
  int next = ext_next(c, ch);
  if (next < 0) return c->has_ext ? PL_E_BAD_CHUNK_EXT : PL_E_BAD_CHUNK_SIZE;
  if (next == EXT_START) c->has_ext = true;
  c->state = (uint8_t)next;
  return PL_OK;
}

/* The limits: of this line, and of all extensions, which are what stands between a size and its CR. */
static pl_err count_char (pl_chunk *c, char ch) {
  bool ext = c->state != SIZE || (c->seen_digit && pl_hex(ch) < 0);
  if (ch == '\r') return PL_OK;
  if (c->line++ >= c->max.line) return c->state == SIZE ? PL_E_BAD_CHUNK_SIZE : PL_E_CHUNK_EXT_TOO_LARGE;
  return ext && c->ext++ >= c->max.ext ? PL_E_CHUNK_EXT_TOO_LARGE : PL_OK;
}

/* One byte of a size line, its LF excepted. */
static pl_err line_char (pl_chunk *c, char ch) {
  pl_err e = count_char(c, ch);
  if (e) return e;
  return c->state == SIZE ? size_char(c, ch) : ext_char(c, ch);
}

/* From a size line's first byte to the first byte behind it. */
static pl_got size_line (pl_chunk *c, const char *p, size_t n, size_t *used) {
  size_t i = 0;
  for (; i < n && c->state < SIZE_LF; i++) {
    pl_err e = line_char(c, p[i]);
    if (e) return fail(c, e, c->at + i);
  }
  *used += i;
  c->at += i;
  if (i == n) return PL_MORE;
  if (p[i] != '\n') return fail(c, c->has_ext ? PL_E_BAD_CHUNK_EXT : PL_E_BAD_CHUNK_SIZE, c->at);
  *used += 1;
  c->at += 1;
  c->state = c->left > 0 ? DATA : TRAILER;
  return PL_DATA;
}

enum { QUICK_DIGITS = 15, QUICK_SIGHT = 2 + QUICK_DIGITS + 2 }; /* a size of so many digits cannot overflow */

/* The usual case in one go: the CRLF behind the content and the next size line without extensions, all in sight. The
   number of bytes used; 0: nothing was, and the states look at it byte by byte. */
static size_t quick_line (pl_chunk *c, const char *p, size_t n) {
  size_t i = c->state == DATA_CR ? 2 : 0, start = i;
  bool fresh = c->state == SIZE && c->line == 0 && !c->seen_digit;
  if (n < QUICK_SIGHT || (!fresh && (c->state != DATA_CR || p[0] != '\r' || p[1] != '\n'))) return 0;
  uint64_t size = 0;
  for (int v; i < start + QUICK_DIGITS && (v = pl_hex(p[i])) >= 0; i++) size = size << 4 | (uint64_t)v;
  if (i == start || i - start > c->max.line || p[i] != '\r' || p[i + 1] != '\n') return 0;
  next_size(c);
  c->left = size;
  c->state = size > 0 ? DATA : TRAILER;
  return i + 2;
}

static pl_got content (pl_chunk *c, const char *p, size_t n, size_t *used, pl_slice *data) {
  size_t k = n < c->left ? n : (size_t)c->left;
  *data = (pl_slice){p, k};
  *used += k;
  c->at += k;
  c->left -= k;
  if (c->left == 0) c->state = DATA_CR;
  return PL_DATA;
}

static pl_got trailer (pl_chunk *c, const char *p, size_t n, size_t *used, pl_slice *data) {
  switch (pl_head_step(c->trailer, p, n)) {
  case PL_MORE: return PL_MORE;
  case PL_FAIL: return fail(c, c->trailer->err, c->at + c->trailer->err_at);
  default: break;
  }
  *data = (pl_slice){p, c->trailer->bytes};
  *used += c->trailer->bytes;
  c->at += c->trailer->bytes;
  c->state = DONE;
  return PL_END;
}

pl_got pl_chunk_step (pl_chunk *c, const char *p, size_t n, size_t *used, pl_slice *data) {
  if (n == 0) p = ""; /* NULL may stand for no bytes, but nothing may be added to it */
  *used = 0;
  *data = (pl_slice){p, 0};
  if (c->state == SIZE || c->state == DATA_CR) {
    *used = quick_line(c, p, n);
    c->at += *used;
  }
  for (;;) {
    const char *q = p + *used;
    size_t left = n - *used;
    switch (c->state) {
    case DATA: return left ? content(c, q, left, used, data) : PL_MORE;
    case DATA_CR:
    case DATA_LF:
      if (left == 0) return PL_MORE;
      if (*q != (c->state == DATA_CR ? '\r' : '\n')) return fail(c, PL_E_BAD_CHUNK_TERMINATOR, c->at);
      *used += 1;
      c->at += 1;
      if (c->state == DATA_CR) c->state = DATA_LF;
      else next_size(c);
      break;
    case TRAILER: return trailer(c, q, left, used, data);
    case DONE: return PL_END;
    case FAILED: return PL_FAIL;
    default: {
      pl_got got = size_line(c, q, left, used);
      if (got != PL_DATA) return got;
    }
    }
  }
}

size_t pl_chunk_line (uint64_t n, char out[PL_CHUNK_LINE_MAX]) {
  static const char hex[] = "0123456789abcdef";
  size_t digits = 1;
  while (digits < 16 && n >> (4 * digits)) digits++;
  for (size_t i = 0; i < digits; i++) out[i] = hex[n >> (4 * (digits - 1 - i)) & 15];
  out[digits] = '\r';
  out[digits + 1] = '\n';
  return digits + 2;
}
