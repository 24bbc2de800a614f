#include "pl_char.h"

#define ALPHA PL_IS_ALPHA
#define DIGIT PL_IS_DIGIT
#define HEXDIG(c) (DIGIT(c) || ((c) >= 'A' && (c) <= 'F') || ((c) >= 'a' && (c) <= 'f'))
#define VCHAR(c) ((c) > 0x20 && (c) < 0x7f)
#define OBS(c) ((c) >= 0x80)
#define BLANK(c) ((c) == ' ' || (c) == '\t')

#define QDTEXT(c) (BLANK(c) || (VCHAR(c) && (c) != '"' && (c) != '\\') || OBS(c))
/* unreserved / pct-encoded / sub-delims, and "[", "]", ":" of literals and ports */
#define HOSTCH(c)                                                                                  \
  (ALPHA(c) || DIGIT(c) || (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~' || (c) == '%' ||   \
   (c) == '!' || (c) == '$' || (c) == '&' || (c) == '\'' || (c) == '(' || (c) == ')' ||            \
   (c) == '*' || (c) == '+' || (c) == ';' || (c) == '=' || (c) == '[' || (c) == ']' || (c) == ':')

#define CLASS(c)                                                                                   \
  ((PL_IS_TCHAR(c) ? PL_TCHAR : 0) | ((VCHAR(c) || OBS(c) || BLANK(c)) ? PL_VALUE : 0) |           \
   ((VCHAR(c) || OBS(c)) ? PL_TARGET : 0) | (DIGIT(c) ? PL_DIGIT : 0) | (HEXDIG(c) ? PL_HEX : 0) | \
   (QDTEXT(c) ? PL_QDTEXT : 0) | (ALPHA(c) ? PL_ALPHA : 0) | (HOSTCH(c) ? PL_HOST : 0)),

#define C4(c) CLASS(c) CLASS((c) + 1) CLASS((c) + 2) CLASS((c) + 3)
#define C16(c) C4(c) C4((c) + 4) C4((c) + 8) C4((c) + 12)
#define C64(c) C16(c) C16((c) + 16) C16((c) + 32) C16((c) + 48)

const unsigned char pl_class[256] = {C64(0) C64(64) C64(128) C64(192)};

#undef CLASS
#define CLASS(c) (DIGIT(c) ? (c) - '0' : HEXDIG(c) ? ((c) | 0x20) - 'a' + 10 : -1),
const signed char pl_hex_value[256] = {C64(0) C64(64) C64(128) C64(192)};

size_t pl_span (pl_slice s, int class_bits) {
  size_t i = 0;
  while (i < s.n && pl_is(s.p[i], class_bits)) i++;
  return i;
}
