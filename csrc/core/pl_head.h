/* The head of a message, the trailer section of a chunked body and the head of a part: start line and field lines
   become slices. Syntax only (RFC 9112 2 to 5, RFC 2046 5.1); what the fields mean is pl_framing's business.

   The caller presents the section from its first byte in one piece of memory, again and again while it grows (it may
   move in between); no byte is searched twice. All positions are offsets from that first byte. */
#ifndef PL_HEAD_H
#define PL_HEAD_H

#include "pl_base.h"

typedef enum pl_head_kind {
  PL_REQUEST,  /* strict: CRLF only, no folds */
  PL_RESPONSE, /* bare LF and folds accepted */
  PL_TRAILER,  /* fields only, strict */
  PL_PART_HEAD /* fields only, folds accepted; every syntax error is BAD_HEADER */
} pl_head_kind;

/* Fields the toolkit itself must understand, recognised once while parsing. */
typedef enum pl_field_id {
  PL_F_OTHER,
  PL_F_HOST,
  PL_F_CONTENT_LENGTH,
  PL_F_TRANSFER_ENCODING,
  PL_F_CONNECTION,
  PL_F_EXPECT,
  PL_F_UPGRADE,
  PL_F_CONTENT_TYPE,
  PL_F_CONTENT_DISPOSITION,
  PL_F_SET_COOKIE,
  PL_F_CONTENT_ENCODING
} pl_field_id;

typedef struct pl_field {
  uint32_t name, name_len;   /* as received */
  uint32_t value, value_len; /* without the white space around it */
  uint8_t id;                /* pl_field_id */
  bool folded;               /* the value holds line ends: read it through pl_unfold */
} pl_field;

typedef struct pl_head_limits {
  uint32_t bytes;  /* of the whole section, line ends and leading empty lines included */
  uint32_t fields; /* field lines: the capacity of the array given to init */
  uint32_t target; /* bytes of a request target */
} pl_head_limits;

typedef struct pl_head {
  pl_head_kind kind;
  pl_head_limits max;
  uint8_t state, empty_lines;
  pl_err err;
  uint32_t err_at;     /* offset of the byte that was refused */
  uint32_t line, scan; /* start of the line being read; bytes searched for its end */
  uint32_t bytes;      /* after PL_END: length of the section */

  /* start line */
  uint32_t method, method_len; /* request */
  uint32_t target, target_len; /* request */
  uint8_t major, minor;
  uint16_t status;             /* response */
  uint32_t reason, reason_len; /* response; may be empty */

  pl_field *field;
  uint32_t nfields;

  const struct pl_simd *simd; /* the fastest loops there are; another set may be put here after init */
} pl_head;

/* fields: room for max.fields entries; lives as long as h. */
void pl_head_init (pl_head *h, pl_head_kind kind, pl_head_limits max, pl_field *fields);

/* Ready for the next section with the same limits. */
void pl_head_reset (pl_head *h);

/* The same, but the start line is already behind: a section of fields under the rules of the kind. */
void pl_head_reset_fields (pl_head *h);

/* p: the first byte of the section, n: bytes at hand. PL_MORE | PL_END (h->bytes used) | PL_FAIL (h->err, h->err_at). */
pl_got pl_head_step (pl_head *h, const char *p, size_t n);

/* True while only empty lines have been seen: the input may end here without a message having begun. */
bool pl_head_idle (const pl_head *h, const char *p, size_t n);

static inline pl_slice pl_name (const pl_field *f, const char *p) {
  return (pl_slice){p + f->name, f->name_len};
}

static inline pl_slice pl_value (const pl_field *f, const char *p) {
  return (pl_slice){p + f->value, f->value_len};
}

/* Copies v to out (room for v.n) with each fold as one SP (RFC 9112 5.2); returns the length. */
size_t pl_unfold (pl_slice v, char *out);

/* The id of a field name, PL_F_OTHER for all that the toolkit only passes on. */
pl_field_id pl_field_known (pl_slice name);

#endif
