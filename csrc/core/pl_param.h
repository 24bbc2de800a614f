/* Parameters of a field value: `form-data; name="a"; filename*=UTF-8''b`, and boundary= of a Content-Type
   (RFC 2045 5.1, 6266, 7578 4.2, 8187). Slices of the input; what must be decoded is written to the caller's memory. */
#ifndef PL_PARAM_H
#define PL_PARAM_H

#include "pl_base.h"

typedef struct pl_param {
  pl_slice name, value; /* a quoted value without its quotes, still escaped */
  bool quoted;
} pl_param;

/* What is left of the value that is being read. */
typedef pl_slice pl_params;

/* The word before the first ";", without white space around it. */
pl_slice pl_params_begin (pl_params *it, pl_slice value);

/* 1: *out is the next parameter; 0: no more; -1: malformed (quotes not closed, text behind them). Empty ones are
   skipped; one without "=" has an empty value. */
int pl_params_next (pl_params *it, pl_param *out);

/* Undoes \" and, with percent, %22 %0D %0A as browsers write them in names (HTML, multipart/form-data encoding).
   Any other backslash or percent is content. out: room for v.n. Returns the length. */
size_t pl_param_text (const pl_param *v, bool percent, char *out);

/* ext-value of RFC 8187: charset'language'pct-encoded, UTF-8 or ISO-8859-1, as UTF-8 to out (room for 2 * v.n).
   Returns the length, or SIZE_MAX when it is malformed. */
size_t pl_param_ext (pl_slice v, char *out);

/* Content-Disposition of a part. Absent ones have p == NULL. */
typedef struct pl_disposition {
  pl_slice type;
  pl_param name, filename, filename_ext;
} pl_disposition;

/* PL_OK or PL_E_BAD_DISPOSITION: malformed, or name, filename or filename* given twice. */
pl_err pl_disposition_read (pl_slice value, pl_disposition *d);

/* The boundary of a multipart Content-Type. *boundary is a slice of the value, at most max bytes; an escaped one is
   refused. is_form: subtype form-data. PL_OK or a code; a type other than multipart is PL_E_BAD_CONTENT_TYPE. */
pl_err pl_boundary_read (pl_slice content_type, size_t max, pl_slice *boundary, bool *is_form);

/* True for "multipart/" anything, ignoring case. */
bool pl_is_multipart (pl_slice content_type);

#endif
