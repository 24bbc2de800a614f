/* Character classes, each made from the ABNF it cites. One table of 256 bit sets. */
#ifndef PL_CHAR_H
#define PL_CHAR_H

#include "pl_base.h"

enum {
  PL_TCHAR = 1,   /* tchar, RFC 9110 5.6.2 */
  PL_VALUE = 2,   /* field-vchar / SP / HTAB, RFC 9110 5.5 (obs-text is content) */
  PL_TARGET = 4,  /* what a request target may hold: VCHAR and obs-text, RFC 9112 3.2 */
  PL_DIGIT = 8,   /* DIGIT, RFC 5234 */
  PL_HEX = 16,    /* HEXDIG in either case */
  PL_QDTEXT = 32, /* qdtext, RFC 9110 5.6.4 */
  PL_ALPHA = 64,  /* ALPHA, RFC 5234 */
  PL_HOST = 128   /* reg-name, IP-literal and port, RFC 3986 3.2.2 */
};

/* Some of them as constant expressions, from which tables are made. */
#define PL_IS_ALPHA(c) (((c) >= 'A' && (c) <= 'Z') || ((c) >= 'a' && (c) <= 'z'))
#define PL_IS_DIGIT(c) ((c) >= '0' && (c) <= '9')
#define PL_IS_TCHAR(c)                                                                             \
  (PL_IS_ALPHA(c) || PL_IS_DIGIT(c) || (c) == '!' || (c) == '#' || (c) == '$' || (c) == '%' ||     \
   (c) == '&' || (c) == '\'' || (c) == '*' || (c) == '+' || (c) == '-' || (c) == '.' ||            \
   (c) == '^' || (c) == '_' || (c) == '`' || (c) == '|' || (c) == '~')

extern const unsigned char pl_class[256];
extern const signed char pl_hex_value[256];

static inline bool pl_is (char c, int class_bits) {
  return (pl_class[(unsigned char)c] & class_bits) != 0;
}

/* The number of leading bytes of s that are all in the class. */
size_t pl_span (pl_slice s, int class_bits);

/* The value of a hexadecimal digit, or -1. */
static inline int pl_hex (char c) { return pl_hex_value[(unsigned char)c]; }

#endif
