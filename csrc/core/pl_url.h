/* The parts of a URL (RFC 3986), percent coding, and the pairs of a query or a form
   (application/x-www-form-urlencoded). Slices of the input; what must be coded is written to the caller's memory. */
#ifndef PL_URL_H
#define PL_URL_H

#include "pl_base.h"

/* Absent parts have p == NULL; an empty one ("http://h?") is there. The path may be empty, but is never absent. */
typedef struct pl_url {
  pl_slice scheme, userinfo, host, port, path, query, fragment; /* host: with the brackets of an IP literal */
} pl_url;

/* Splits a URI reference (RFC 3986 4.1): absolute, or relative in any form. PL_OK, or PL_E_BAD_URL with the offset of
   the fault in *at: control characters and blanks anywhere, what no host or port may hold. Bytes from 0x80 and other
   characters that should have been encoded are content. */
pl_err pl_url_split (pl_slice s, pl_url *u, size_t *at);

/* Which bytes stay as they are. */
typedef enum pl_url_keep {
  PL_KEEP_UNRESERVED, /* RFC 3986 2.3: a component, safe anywhere */
  PL_KEEP_PATH,       /* pchar and "/" */
  PL_KEEP_QUERY,      /* pchar, "/" and "?" */
  PL_KEEP_FORM,       /* the URL standard's set of forms; a space becomes "+" */
  PL_KEEP_URL         /* all that may stand in a URL, "%" included: for what is encoded already but not everywhere */
} pl_url_keep;

/* Percent-encodes s to out (room for 3 * s.n). Returns the length. */
size_t pl_url_encode (pl_slice s, pl_url_keep keep, char *out);

/* Undoes it to out (room for s.n; may be s.p). A "%" without two digits stays. plus: "+" is a space. */
size_t pl_url_decode (pl_slice s, bool plus, char *out);

/* Takes the next pair off a query or form: split at "&", then at the first "="; empty pieces are skipped, a missing "="
   means an empty value. False at the end. Both slices are still encoded. */
bool pl_url_pair (pl_slice *rest, pl_slice *name, pl_slice *value);

#endif
