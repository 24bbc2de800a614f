/* What pl_head.c and its vector twins share. */
#ifndef PL_HEAD_STATE_H
#define PL_HEAD_STATE_H

#include "pl_head.h"

/* What the next line is. */
enum { PL_HEAD_START,  /* request or status line; empty lines before it are skipped */
       PL_HEAD_FIELDS, /* field lines up to an empty one */
       PL_HEAD_DONE,
       PL_HEAD_FAILED };

/* "HTTP/1." as the first seven bytes of a word in memory, whatever the byte order */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PL_VERSION_1 UINT64_C(0x485454502f312e00)
#define PL_VERSION_MASK UINT64_C(0xffffffffffffff00)
#else
#define PL_VERSION_1 UINT64_C(0x002e312f50545448)
#define PL_VERSION_MASK UINT64_C(0x00ffffffffffffff)
#endif

/* A field name that the toolkit knows, in lower case; head and mask: its first eight bytes and which of them it has. */
typedef struct pl_known_name {
  const char *name;
  uint32_t n, id;
  char head[8], mask[8];
} pl_known_name;

enum { PL_KNOWN_SLOTS = 32 };
extern const pl_known_name pl_known_names[PL_KNOWN_SLOTS];

/* Distinct for all known names; first in lower case. */
#define PL_NAME_SLOT(n, first) (((n) + (first)) % PL_KNOWN_SLOTS)

static inline uint64_t pl_word (const char *p) {
  uint64_t w;
  memcpy(&w, p, sizeof w);
  return w;
}

/* The id of a field name of n > 0 tchars; eight bytes at p can be read. One comparison settles nearly all names that are
   not known. Setting bit 5 puts letters in lower case and makes no other tchar equal to one in a known name. */
static inline pl_field_id pl_field_id_of (const char *p, size_t n) {
  const pl_known_name *k = &pl_known_names[PL_NAME_SLOT(n, (unsigned char)*p | 0x20)];
  uint64_t w = pl_word(p) | UINT64_C(0x2020202020202020);
  if (k->n != n || ((w ^ pl_word(k->head)) & pl_word(k->mask)) != 0) return PL_F_OTHER;
  return n <= 8 || pl_ieq(p + 8, n - 8, k->name + 8, n - 8) ? (pl_field_id)k->id : PL_F_OTHER;
}

#endif
