/* Multipart scanner (RFC 2046 5.1, RFC 7578): preamble, heads of parts, their content, the close delimiter. */
#ifndef PL_MPART_H
#define PL_MPART_H

#include "pl_head.h"
#include "pl_param.h"

enum {
  PL_DELIMITER_EXTRA = 4, /* CR LF "--" in front of the boundary */
  PL_PADDING_MAX = 128    /* white space after a delimiter; more makes the line content */
};

typedef struct pl_mpart_limits {
  uint32_t parts;
} pl_mpart_limits;

typedef struct pl_mpart {
  pl_mpart_limits max;
  pl_slice delimiter; /* CR LF "--" boundary */
  bool is_form;       /* multipart/form-data: each part needs a disposition with a name */
  uint8_t state;
  char prev;          /* in the preamble: the byte before the ones presented */
  pl_err err;
  uint64_t err_at;    /* offset in the body of the byte that was refused */
  uint64_t at;        /* bytes of the body used so far */
  uint32_t parts;     /* heads completed */
  pl_head *head;      /* the current part's head, after PL_PART */
  pl_disposition disposition; /* its Content-Disposition; slices of the head's bytes */
  const struct pl_simd *simd; /* the fastest loops there are; another set may be put here after init */
} pl_mpart;

/* memory: room for boundary.n + PL_DELIMITER_EXTRA bytes; head: made by pl_head_init with PL_PART_HEAD. Both live as
   long as m. The boundary has passed pl_boundary_read. */
void pl_mpart_init (pl_mpart *m, pl_slice boundary, bool is_form, pl_mpart_limits max, char *memory, pl_head *head);

/* Uses up to *used bytes of [p, p+n), eof: nothing follows them, and answers
   PL_PART:     *data is the head's bytes, which m->head and m->disposition describe (the last used bytes);
   PL_DATA:     *data is content (the last used bytes);
   PL_PART_END: the part is over: its delimiter has been used;
   PL_MORE:     the bytes after *used must be presented again with more behind them; never with eof;
   PL_END:      the close delimiter has been used; what follows is the epilogue, to be skipped unread;
   PL_FAIL:     m->err, m->err_at.
   Bytes held back are fewer than delimiter.n + PL_PADDING_MAX + 2, but for a head, which comes in one piece. */
pl_got pl_mpart_step (pl_mpart *m, const char *p, size_t n, bool eof, size_t *used, pl_slice *data);

#endif
