/* Two tables of 16 that class a byte by its halves: for the vector sets that have such look-ups. Each defines before it
   ENTRY, the type of an entry.

   Byte c is in a class when low[c & 15] & high[c >> 4] has one of its bits: bits 2 to 7, one for each high nibble, say
   tchar; bit 0 says below 0x20; bit 1 says DEL. From 0x80 on that is 0. */
#include "pl_char.h"

#define T PL_IS_TCHAR
#define LOW(n)                                                                                                         \
  (ENTRY)(1 | ((n) == 15 ? 2 : 0) | (T(0x20 + (n)) ? 4 : 0) | (T(0x30 + (n)) ? 8 : 0) | (T(0x40 + (n)) ? 16 : 0) |     \
          (T(0x50 + (n)) ? 32 : 0) | (T(0x60 + (n)) ? 64 : 0) | (T(0x70 + (n)) ? 128 : 0))
#define LOW16                                                                                                          \
  LOW(0), LOW(1), LOW(2), LOW(3), LOW(4), LOW(5), LOW(6), LOW(7), LOW(8), LOW(9), LOW(10), LOW(11), LOW(12), LOW(13),  \
      LOW(14), LOW(15)
#define HIGH16 1, 1, 4, 8, 16, 32, 64, (ENTRY)(128 | 2), 0, 0, 0, 0, 0, 0, 0, 0
