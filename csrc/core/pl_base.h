/* Words every part of the core shares: slices, answers, errors. Pure C; knows no Lua, no sockets, no malloc. */
#ifndef PL_BASE_H
#define PL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes owned by somebody else; dies when the owner moves or frees them. */
typedef struct pl_slice {
  const char *p;
  size_t n;
} pl_slice;

/* What a step function answers. */
typedef enum pl_got {
  PL_MORE,     /* nothing yet: call again with the unused bytes and more behind them */
  PL_DATA,     /* content bytes, in the slice */
  PL_PART,     /* multipart only: the head of a part is complete */
  PL_PART_END, /* multipart only: the content of the part is over */
  PL_END,      /* the message, body or section is complete */
  PL_FAIL      /* refused: the error is sticky, every later call repeats it */
} pl_got;

/* Name, code as Lua sees it, HTTP status a server answers with, text. */
#define PL_ERRORS(X)                                                                               \
  X(BAD_REQUEST_LINE, "bad-request-line", 400, "malformed request line")                           \
  X(BAD_REQUEST_TARGET, "bad-request-target", 400, "request target not allowed here")              \
  X(BAD_STATUS_LINE, "bad-status-line", 502, "malformed status line")                              \
  X(BAD_VERSION, "bad-version", 505, "HTTP version not supported")                                 \
  X(BAD_HEADER, "bad-header", 400, "malformed header field of a part")                             \
  X(BAD_HEADER_NAME, "bad-header-name", 400, "malformed field name")                               \
  X(BAD_HEADER_VALUE, "bad-header-value", 400, "character not allowed in a field value")           \
  X(BAD_LINE_ENDING, "bad-line-ending", 400, "line does not end in CRLF")                          \
  X(OBS_FOLD, "obs-fold", 400, "folded field line")                                                \
  X(BAD_HOST, "bad-host", 400, "exactly one valid Host field is required")                         \
  X(HEADER_TOO_LARGE, "header-too-large", 431, "header section over the limit")                    \
  X(URI_TOO_LONG, "uri-too-long", 414, "request target over the limit")                            \
  X(BAD_CONTENT_LENGTH, "bad-content-length", 400, "Content-Length is not one decimal number")     \
  X(CONFLICTING_LENGTH, "conflicting-length", 400, "more than one Content-Length")                 \
  X(TE_AND_CL, "te-and-cl", 400, "both Transfer-Encoding and Content-Length")                      \
  X(BAD_TRANSFER_ENCODING, "bad-transfer-encoding", 400, "Transfer-Encoding not allowed here")     \
  X(UNSUPPORTED_TRANSFER_ENCODING, "unsupported-transfer-encoding", 501,                           \
    "transfer coding not supported")                                                               \
  X(BAD_CHUNK_SIZE, "bad-chunk-size", 400, "chunk size is not hexadecimal")                        \
  X(CHUNK_SIZE_OVERFLOW, "chunk-size-overflow", 400, "chunk size too large")                       \
  X(BAD_CHUNK_EXT, "bad-chunk-ext", 400, "malformed chunk extension")                              \
  X(CHUNK_EXT_TOO_LARGE, "chunk-ext-too-large", 413, "chunk extensions over the limit")            \
  X(BAD_CHUNK_TERMINATOR, "bad-chunk-terminator", 400, "no CRLF after chunk data")                 \
  X(BAD_TRAILER, "bad-trailer", 400, "malformed trailer field")                                    \
  X(TRAILER_TOO_LARGE, "trailer-too-large", 431, "trailer section over the limit")                 \
  X(UNEXPECTED_EOF, "unexpected-eof", 400, "input ended too early")                                \
  X(BODY_TOO_LARGE, "body-too-large", 413, "body over the limit")                                  \
  X(NO_BOUNDARY, "no-boundary", 400, "multipart without a boundary")                               \
  X(DUPLICATE_BOUNDARY, "duplicate-boundary", 400, "more than one boundary parameter")             \
  X(INVALID_BOUNDARY, "invalid-boundary", 400, "character not allowed in the boundary")            \
  X(BOUNDARY_TOO_LONG, "boundary-too-long", 400, "boundary over the limit")                        \
  X(BAD_CONTENT_TYPE, "bad-content-type", 400, "malformed Content-Type")                           \
  X(BAD_FIRST_BOUNDARY, "bad-first-boundary", 400, "no delimiter at the start of a line")          \
  X(BAD_DISPOSITION, "bad-disposition", 400, "malformed Content-Disposition")                      \
  X(MISSING_DISPOSITION, "missing-disposition", 400, "part without Content-Disposition")           \
  X(MISSING_NAME, "missing-name", 400, "form-data part without a name")                            \
  X(TOO_MANY_PARTS, "too-many-parts", 413, "more parts than the limit")                            \
  X(TOO_MANY_PARAMETERS, "too-many-parameters", 413, "more parameters than the limit")             \
  X(BAD_URL, "bad-url", 400, "malformed URL")                                                      \
  X(STALE_PART, "stale-part", 500, "the iterator has moved on: this part is over")                 \
  X(BODY_IN_USE, "body-in-use", 500, "the body is already read by the other of parts and body")    \
  X(CLOSED, "closed", 500, "closed")                                                               \
  X(UPGRADED, "upgraded", 500, "what follows is no HTTP: the connection has been upgraded")         \
  X(TIMEOUT, "timeout", 408, "timeout")                                                            \
  X(NO_PROGRESS, "no-progress", 500, "the source keeps giving empty pieces")                       \
  X(NO_MEMORY, "no-memory", 500, "not enough memory")                                              \
  X(READ_FAILED, "read-failed", 500, "read failed")                                                \
  X(WRITE_FAILED, "write-failed", 500, "write failed")                                             \
  X(EXPECTATION_FAILED, "expectation-failed", 417, "expectation not supported")                    \
  X(INVALID_HEADER_VALUE, "invalid-header-value", 500, "header field cannot be sent")              \
  X(INVALID_REQUEST_LINE, "invalid-request-line", 500, "request line cannot be sent")              \
  X(SOURCE, "source-failed", 500, "the source failed")

typedef enum pl_err {
  PL_OK,
#define PL_ERR_ENUM(name, code, status, text) PL_E_##name,
  PL_ERRORS(PL_ERR_ENUM)
#undef PL_ERR_ENUM
  PL_ERR_COUNT
} pl_err;

/* The three faces of an error; e is PL_E_*. Texts are static. */
const char *pl_err_code (pl_err e);
const char *pl_err_text (pl_err e);
int pl_err_status (pl_err e);

/* ASCII only, whatever the locale. */
bool pl_ieq (const char *a, size_t n, const char *b, size_t m);
#define PL_IS(s, lit) ((s).n == sizeof(lit) - 1 && pl_ieq((s).p, (s).n, lit, sizeof(lit) - 1))

/* s without SP and HTAB at both ends (OWS, RFC 9110 5.6.3). */
pl_slice pl_trim (pl_slice s);

#endif
