/* Byte searches. Every search of the core goes through here, so that faster twins can stand behind the same names.
   All are linear in the input whatever the bytes are, and touch nothing outside [p, p+n). */
#ifndef PL_SCAN_H
#define PL_SCAN_H

#include "pl_base.h"

/* The offset of the first c, or n. */
size_t pl_scan_byte (const char *p, size_t n, char c);

/* The offset of the first whole occurrence of needle, or n. The first byte of the needle must occur in it only there
   (true of CR LF "--" boundary), which makes the search linear. needle.n >= 2. */
size_t pl_scan_needle (const char *p, size_t n, pl_slice needle);

/* How many of the last bytes may be the beginning of a needle cut off by the end: 0 to needle.n - 1. Same condition. */
size_t pl_scan_tail (const char *p, size_t n, pl_slice needle);

#endif
