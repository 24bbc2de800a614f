/* The codecs as feed_run wants them: a struct, a function that makes it new, a step that writes what happened. The text
   says all that the header promises, so that two equal texts are two equal outcomes. */
#ifndef CODECS_H
#define CODECS_H

#include "feed.h"
#include "pl_chunk.h"
#include "pl_framing.h"
#include "pl_head.h"
#include "pl_mpart.h"
#include "pl_simd.h"

enum { CODEC_FIELDS = 32, CODEC_BOUNDARY = 256 };

static inline void trace_fail (trace *t, pl_err e, uint64_t at) {
  trace_add(t, "<fail %s %llu>", pl_err_code(e), (unsigned long long)at);
}

/* --- heads: <GET /x 1.1|Host=a|X=b c|end 40>; folds as one SP */

typedef struct head_codec {
  pl_head_kind kind;
  pl_head_limits max;
  const pl_simd *simd; /* NULL: the best */
  pl_head h;
  pl_field fields[CODEC_FIELDS];
} head_codec;

static inline void head_start (void *codec) {
  head_codec *c = codec;
  memset(c->fields, 0xA5, sizeof c->fields);
  pl_head_init(&c->h, c->kind, c->max, c->fields);
  if (c->simd) c->h.simd = c->simd;
}

static inline void trace_field (trace *t, const pl_field *f, const char *p) {
  pl_slice name = pl_name(f, p), value = pl_value(f, p);
  char *text = malloc(value.n + 1);
  if (text == NULL) abort();
  trace_text(t, name);
  trace_add(t, "=");
  trace_text(t, f->folded ? (pl_slice){text, pl_unfold(value, text)} : value);
  trace_add(t, "|");
  free(text);
}

static inline void trace_head (trace *t, const pl_head *h, const char *p) {
  trace_add(t, "<");
  if (h->kind == PL_REQUEST) {
    trace_text(t, (pl_slice){p + h->method, h->method_len});
    trace_add(t, " ");
    trace_text(t, (pl_slice){p + h->target, h->target_len});
    trace_add(t, " %d.%d|", h->major, h->minor);
  } else if (h->kind == PL_RESPONSE) {
    trace_add(t, "%d.%d %d ", h->major, h->minor, h->status);
    trace_text(t, (pl_slice){p + h->reason, h->reason_len});
    trace_add(t, "|");
  }
  for (uint32_t i = 0; i < h->nfields; i++) trace_field(t, &h->field[i], p);
}

static inline pl_got head_feed (void *codec, const char *p, size_t n, bool eof, size_t *used, trace *t) {
  head_codec *c = codec;
  (void)eof;
  bool over = c->h.bytes > 0; /* asked once more: the fields lie in bytes that are gone */
  pl_got got = pl_head_step(&c->h, p, n);
  if (got == PL_FAIL) trace_fail(t, c->h.err, c->h.err_at);
  if (got != PL_END || over) return got;
  *used = c->h.bytes;
  trace_head(t, &c->h, p);
  trace_add(t, "end %u>", (unsigned)c->h.bytes);
  return got;
}

/* --- chunked: content<trailer X=y|end 40> */

typedef struct chunk_codec {
  pl_chunk_limits max;
  pl_head_limits trailer_max;
  bool lenient;
  pl_chunk c;
  pl_head trailer;
  pl_field fields[CODEC_FIELDS];
} chunk_codec;

static inline void chunk_start (void *codec) {
  chunk_codec *c = codec;
  pl_head_init(&c->trailer, PL_TRAILER, c->trailer_max, c->fields);
  pl_chunk_init(&c->c, c->max, c->lenient, &c->trailer);
}

/* Content must lie at the end of the used bytes. */
static inline void trace_data (trace *t, pl_slice data, const char *p, size_t used) {
  if (data.n == 0 || data.p + data.n != p + used || data.p < p) trace_broken(t, "data ends the used bytes");
  else trace_text(t, data);
}

static inline pl_got chunk_feed (void *codec, const char *p, size_t n, bool eof, size_t *used, trace *t) {
  chunk_codec *c = codec;
  pl_slice data;
  uint64_t before = c->c.at;
  (void)eof;
  pl_got got = pl_chunk_step(&c->c, p, n, used, &data);
  if (got != PL_FAIL && c->c.at - before != *used) trace_broken(t, "used is counted");
  if (got == PL_FAIL) trace_fail(t, c->c.err, c->c.err_at);
  if (got == PL_DATA) trace_data(t, data, p, *used);
  if (got != PL_END || *used == 0) return got;
  trace_head(t, &c->trailer, data.p);
  trace_add(t, "end %llu>", (unsigned long long)c->c.at);
  return got;
}

/* --- multipart: <part name|filename|filename*|X=y|>content<part end><end 40> */

typedef struct mpart_codec {
  const char *boundary;
  bool is_form;
  pl_mpart_limits max;
  pl_head_limits head_max;
  const pl_simd *simd; /* NULL: the best */
  pl_mpart m;
  pl_head head;
  pl_field fields[CODEC_FIELDS];
  char memory[CODEC_BOUNDARY + PL_DELIMITER_EXTRA];
  bool in_part;
} mpart_codec;

static inline void mpart_start (void *codec) {
  mpart_codec *c = codec;
  c->in_part = false;
  pl_head_init(&c->head, PL_PART_HEAD, c->head_max, c->fields);
  pl_mpart_init(&c->m, (pl_slice){c->boundary, strlen(c->boundary)}, c->is_form, c->max, c->memory, &c->head);
  if (c->simd) c->m.simd = c->head.simd = c->simd;
}

static inline void trace_param (trace *t, const pl_param *v) {
  char *text = malloc(v->value.n + 1);
  if (text == NULL) abort();
  if (v->value.p) trace_text(t, (pl_slice){text, pl_param_text(v, true, text)});
  else trace_add(t, "nil");
  trace_add(t, "|");
  free(text);
}

static inline pl_got mpart_feed (void *codec, const char *p, size_t n, bool eof, size_t *used, trace *t) {
  mpart_codec *c = codec;
  pl_slice data;
  uint64_t before = c->m.at;
  pl_got got = pl_mpart_step(&c->m, p, n, eof, used, &data);
  if (got != PL_FAIL && c->m.at - before != *used) trace_broken(t, "used is counted");
  if (eof && got == PL_MORE) trace_broken(t, "no more at eof");
  size_t held = c->m.delimiter.n + PL_PADDING_MAX + 2;
  bool in_head = !c->in_part && c->head.line + c->head.scan > 0; /* which is held as a whole */
  if (got == PL_MORE && n - *used >= held && !in_head) trace_broken(t, "few bytes held");
  if (got == PL_FAIL) trace_fail(t, c->m.err, c->m.err_at);
  if (got == PL_DATA) trace_data(t, data, p, *used);
  if (got == PL_PART_END) trace_add(t, "<part end>");
  if (got == PL_END) trace_add(t, "<end %llu>", (unsigned long long)c->m.at);
  if (got == PL_PART || got == PL_PART_END) c->in_part = got == PL_PART;
  if (got != PL_PART) return got;
  trace_add(t, "<part ");
  trace_param(t, &c->m.disposition.name);
  trace_param(t, &c->m.disposition.filename);
  trace_param(t, &c->m.disposition.filename_ext);
  for (uint32_t i = 0; i < c->head.nfields; i++) trace_field(t, &c->head.field[i], data.p);
  trace_add(t, ">");
  return got;
}

#endif
