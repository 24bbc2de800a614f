/* Chunked transfer coding (RFC 9112 7.1): decoding step and the writer of size lines. Spans only, nothing is copied. */
#ifndef PL_CHUNK_H
#define PL_CHUNK_H

#include "pl_head.h"

typedef struct pl_chunk_limits {
  uint32_t line; /* bytes of one size line, extensions included */
  uint32_t ext;  /* bytes of all extensions of the body */
} pl_chunk_limits;

typedef struct pl_chunk {
  pl_chunk_limits max;
  uint8_t state;
  uint8_t digits;   /* significant hexadecimal digits seen of this size */
  bool seen_digit, has_ext; /* of this size line */
  bool lenient;     /* a response: white space after the size is accepted */
  pl_err err;
  uint64_t err_at;  /* offset in the coded body of the byte that was refused */
  uint64_t at;      /* bytes of the coded body used so far */
  uint64_t left;    /* of the chunk */
  uint32_t line;    /* bytes of this size line */
  uint32_t ext;     /* bytes of extensions so far */
  pl_head *trailer; /* where the trailer section goes */
} pl_chunk;

/* trailer: made by pl_head_init with PL_TRAILER; lives as long as c. */
void pl_chunk_init (pl_chunk *c, pl_chunk_limits max, bool lenient, pl_head *trailer);

/* Uses up to *used bytes of [p, p+n) and answers
   PL_DATA: *data is content inside the used bytes (they are its last bytes);
   PL_MORE: the bytes after *used must be presented again with more behind them;
   PL_END:  the body is over; *used stops right behind it. *data is the trailer section, which c->trailer describes;
   PL_FAIL: c->err, c->err_at. */
pl_got pl_chunk_step (pl_chunk *c, const char *p, size_t n, size_t *used, pl_slice *data);

/* Writes the size line of a chunk of n > 0 bytes to out; returns its length. */
enum { PL_CHUNK_LINE_MAX = 18 };
size_t pl_chunk_line (uint64_t n, char out[PL_CHUNK_LINE_MAX]);

#endif
