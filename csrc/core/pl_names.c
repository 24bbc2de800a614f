/* The field names that the toolkit itself must understand, by a perfect hash of length and first letter. */
#include "pl_head_state.h"

#define KNOWN(first, text, head, bytes, id)                                                                            \
  [PL_NAME_SLOT(sizeof(text) - 1, first)] = {text, sizeof(text) - 1, PL_F_##id, head, bytes}
#define FOUR "\xff\xff\xff\xff"
#define ALL FOUR FOUR

const pl_known_name pl_known_names[PL_KNOWN_SLOTS] = {
    KNOWN('h', "host", "host", FOUR, HOST),
    KNOWN('e', "expect", "expect", FOUR "\xff\xff", EXPECT),
    KNOWN('u', "upgrade", "upgrade", FOUR "\xff\xff\xff", UPGRADE),
    KNOWN('c', "connection", "connecti", ALL, CONNECTION),
    KNOWN('s', "set-cookie", "set-cook", ALL, SET_COOKIE),
    KNOWN('c', "content-type", "content-", ALL, CONTENT_TYPE),
    KNOWN('c', "content-length", "content-", ALL, CONTENT_LENGTH),
    KNOWN('c', "content-encoding", "content-", ALL, CONTENT_ENCODING),
    KNOWN('t', "transfer-encoding", "transfer", ALL, TRANSFER_ENCODING),
    KNOWN('c', "content-disposition", "content-", ALL, CONTENT_DISPOSITION),
};

pl_field_id pl_field_known (pl_slice s) {
  if (s.n == 0) return PL_F_OTHER;
  const pl_known_name *k = &pl_known_names[PL_NAME_SLOT(s.n, (unsigned char)s.p[0] | 0x20)];
  return k->n && pl_ieq(s.p, s.n, k->name, k->n) ? (pl_field_id)k->id : PL_F_OTHER;
}
