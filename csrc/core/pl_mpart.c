#include "pl_mpart.h"
#include "pl_char.h"
#include "pl_scan.h"
#include "pl_simd.h"

enum { BODY_START, /* first byte of the body: a delimiter needs no CRLF before it */
       PREAMBLE,   /* lines to skip, up to a delimiter at the start of one */
       HEAD,       /* field lines of a part */
       PART_START, /* first byte of content: a delimiter needs no CRLF, the blank line's serves */
       CONTENT,    /* up to CRLF and a delimiter */
       LAST_END,   /* the close delimiter has been read while a part was open */
       DONE,
       FAILED };

/* What stands behind the boundary. */
typedef enum tail {
  NOT_OURS,   /* anything else: the line is content */
  UNDECIDED,  /* the bytes end too early to tell */
  NEXT_PART,  /* white space and CRLF */
  CLOSE,      /* "--" */
  BARE_LF     /* white space and LF */
} tail;

void pl_mpart_init (pl_mpart *m, pl_slice boundary, bool is_form, pl_mpart_limits max, char *memory, pl_head *head) {
  memset(m, 0, sizeof *m);
  memcpy(memory, "\r\n--", PL_DELIMITER_EXTRA);
  memcpy(memory + PL_DELIMITER_EXTRA, boundary.p, boundary.n);
  m->delimiter = (pl_slice){memory, boundary.n + PL_DELIMITER_EXTRA};
  m->is_form = is_form;
  m->max = max;
  m->head = head;
  m->simd = pl_simd_best();
}

static pl_got fail (pl_mpart *m, pl_err e, uint64_t at) {
  m->state = FAILED;
  m->err = e;
  m->err_at = at;
  return PL_FAIL;
}

static void use (pl_mpart *m, size_t n, size_t *used) {
  *used += n;
  m->at += n;
}

/* s: the bytes behind the boundary; *length: how many belong to the delimiter line. */
static tail read_tail (pl_slice s, size_t *length) {
  size_t i = 0;
  if (s.n > 0 && s.p[0] == '-') {
    *length = 2;
    return s.n == 1 ? UNDECIDED : s.p[1] == '-' ? CLOSE : NOT_OURS;
  }
  while (i < s.n && i <= PL_PADDING_MAX && (s.p[i] == ' ' || s.p[i] == '\t')) i++;
  if (i > PL_PADDING_MAX) return NOT_OURS;
  if (i == s.n) return UNDECIDED;
  *length = i + 1;
  if (s.p[i] == '\n') return BARE_LF;
  if (s.p[i] != '\r') return NOT_OURS;
  if (i + 1 == s.n) return UNDECIDED;
  *length = i + 2;
  return s.p[i + 1] == '\n' ? NEXT_PART : NOT_OURS;
}

/* The delimiter from its byte `from` on, at p, and what stands behind it. */
static tail read_delimiter (const pl_mpart *m, const char *p, size_t n, size_t from, size_t *length) {
  pl_slice d = {m->delimiter.p + from, m->delimiter.n - from};
  size_t k = n < d.n ? n : d.n;
  if (memcmp(p, d.p, k) != 0) return NOT_OURS;
  if (k < d.n) return UNDECIDED;
  tail t = read_tail((pl_slice){p + k, n - k}, length);
  *length += k;
  return t;
}

/* A delimiter of length bytes has been recognised; open: it ends a part. */
static pl_got take_delimiter (pl_mpart *m, tail t, size_t length, bool open, size_t *used) {
  use(m, length, used);
  m->state = t == NEXT_PART ? HEAD : open ? LAST_END : DONE;
  if (t == NEXT_PART) pl_head_reset(m->head);
  return PL_PART_END;
}

/* What is at hand may still become a delimiter or the end of a head; if nothing follows, the body has been cut off. */
static pl_got more (pl_mpart *m, size_t n, bool eof) {
  return eof ? fail(m, PL_E_UNEXPECTED_EOF, m->at + n) : PL_MORE;
}

static pl_got body_start (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used) {
  size_t length = 0;
  tail t = read_delimiter(m, p, n, 2, &length);
  if (t == NEXT_PART || t == CLOSE) return take_delimiter(m, t, length, false, used);
  if (t == BARE_LF) return fail(m, PL_E_BAD_LINE_ENDING, m->at + length - 1);
  if (t == UNDECIDED) return more(m, n, eof);
  m->state = PREAMBLE;
  return PL_DATA;
}

static void skip_preamble (pl_mpart *m, const char *p, size_t n, size_t *used) {
  if (n == 0) return;
  m->prev = p[n - 1];
  use(m, n, used);
}

/* No whole LF "--" boundary in sight: all but its beginning is skipped, and CR, LF alone are no beginning of one. */
static pl_got preamble_rest (pl_mpart *m, const char *p, size_t n, size_t keep, bool eof, size_t *used) {
  skip_preamble(m, p, n - keep, used);
  if (eof && (keep < 2 || m->prev != '\r')) return fail(m, PL_E_BAD_FIRST_BOUNDARY, m->at + keep);
  return more(m, keep, eof);
}

/* Looks for LF "--" boundary; whether a CR stands before it is looked up afterwards, so that lines which end in a bare
   LF are seen for what they are: a delimiter that others may take for one is not skipped. */
static pl_got preamble (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used) {
  pl_slice lf = {m->delimiter.p + 1, m->delimiter.n - 1};
  size_t i = m->simd->needle(p, n, lf), length = 0;
  if (i == n) return preamble_rest(m, p, n, pl_scan_tail(p, n, lf), eof, used);
  tail t = read_delimiter(m, p + i, n - i, 1, &length);
  skip_preamble(m, p, i, used);
  if (t == UNDECIDED) return more(m, n - i, eof);
  if (t != NOT_OURS && m->prev != '\r') return fail(m, PL_E_BAD_LINE_ENDING, m->at);
  if (t == BARE_LF) return fail(m, PL_E_BAD_LINE_ENDING, m->at + length - 1);
  if (t != NOT_OURS) return take_delimiter(m, t, length, false, used);
  skip_preamble(m, p + i, 1, used);
  return PL_DATA;
}

/* The one Content-Disposition a part may have; form-data needs it, of that type and with a name. *at: the field. */
static pl_err disposition (pl_mpart *m, const char *p, uint32_t *at) {
  const pl_field *field = NULL;
  memset(&m->disposition, 0, sizeof m->disposition);
  for (uint32_t i = 0; i < m->head->nfields; i++) {
    if (m->head->field[i].id != PL_F_CONTENT_DISPOSITION) continue;
    *at = m->head->field[i].name;
    if (field) return PL_E_BAD_DISPOSITION;
    field = &m->head->field[i];
  }
  if (field == NULL) return m->is_form ? PL_E_MISSING_DISPOSITION : PL_OK;
  pl_err e = pl_disposition_read(pl_value(field, p), &m->disposition);
  if (!m->is_form) { /* a malformed one does no harm here, and no half of it may be seen */
    if (e) memset(&m->disposition, 0, sizeof m->disposition);
    return PL_OK;
  }
  if (e) return e;
  if (!PL_IS(m->disposition.type, "form-data")) return PL_E_BAD_DISPOSITION;
  return m->disposition.name.name.p ? PL_OK : PL_E_MISSING_NAME;
}

static pl_got head (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used, pl_slice *data) {
  uint32_t at = 0;
  if (m->parts == m->max.parts) return fail(m, PL_E_TOO_MANY_PARTS, m->at);
  pl_got got = pl_head_step(m->head, p, n);
  if (got == PL_FAIL) return fail(m, m->head->err, m->at + m->head->err_at);
  if (got == PL_MORE) return more(m, n, eof);
  pl_err e = disposition(m, p, &at);
  if (e) return fail(m, e, m->at + at);
  *data = (pl_slice){p, m->head->bytes};
  use(m, m->head->bytes, used);
  m->parts++;
  m->state = PART_START;
  return PL_PART;
}

static pl_got part_start (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used) {
  size_t length = 0;
  tail t = read_delimiter(m, p, n, 2, &length);
  if (t == NEXT_PART || t == CLOSE) return take_delimiter(m, t, length, true, used);
  if (t == UNDECIDED) return more(m, n, eof);
  m->state = CONTENT;
  return PL_DATA;
}

/* Content up to the next delimiter, or as far as the bytes surely are content. */
static pl_got content (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used, pl_slice *data) {
  size_t i = 0, length = 0;
  tail t = NOT_OURS;
  while (t == NOT_OURS && i < n) {
    size_t found = i + m->simd->needle(p + i, n - i, m->delimiter);
    if (found == n) {
      i = n - pl_scan_tail(p + i, n - i, m->delimiter);
      break;
    }
    t = read_delimiter(m, p + found, n - found, 0, &length);
    if (t == BARE_LF) t = NOT_OURS;
    i = t == NOT_OURS ? found + m->delimiter.n : found;
  }
  if (i > 0) {
    *data = (pl_slice){p, i};
    use(m, i, used);
    return PL_DATA;
  }
  if (t == NEXT_PART || t == CLOSE) return take_delimiter(m, t, length, true, used);
  return more(m, n, eof);
}

/* One state's worth of work; PL_DATA without data means: go on. */
static pl_got advance (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used, pl_slice *data) {
  switch (m->state) {
  case BODY_START: return body_start(m, p, n, eof, used);
  case PREAMBLE: return preamble(m, p, n, eof, used);
  case HEAD: return head(m, p, n, eof, used, data);
  case PART_START: return part_start(m, p, n, eof, used);
  case CONTENT: return content(m, p, n, eof, used, data);
  case FAILED: return PL_FAIL;
  default: m->state = DONE; return PL_END;
  }
}

pl_got pl_mpart_step (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used, pl_slice *data) {
  if (n == 0) p = ""; /* NULL may stand for no bytes, but nothing may be added to it */
  *used = 0;
  *data = (pl_slice){p, 0};
  for (;;) {
    bool outside = m->state == BODY_START || m->state == PREAMBLE;
    pl_got got = advance(m, p + *used, n - *used, eof, used, data);
    if (got == PL_DATA && data->n == 0) continue;
    if (got == PL_PART_END && outside) continue; /* the first delimiter ends no part */
    return got;
  }
}
