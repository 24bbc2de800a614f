/* What a push parser has ahead of it: bytes that were kept, then the input of this feed. */
#include "lpl_push.h"

enum { JOIN = 256 };

bool lpl_look (lane *l, pl_slice *s) {
  size_t held = pl_buf_len(&l->kept), more = l->n - l->at;
  l->joined = 0;
  if (held == 0) {
    *s = (pl_slice){l->p + l->at, more};
    return true;
  }
  size_t most = held < JOIN ? JOIN : held; /* twice as much each time: linear */
  if (more > most) more = most;
  if (!pl_buf_append(&l->kept, l->p + l->at, more)) return false;
  l->joined = more;
  *s = pl_buf_peek(&l->kept);
  return true;
}

static bool keep_rest (lane *l) {
  bool ok = pl_buf_append(&l->kept, l->p + l->at, l->n - l->at);
  l->at = l->n;
  return ok;
}

bool lpl_settle (lane *l, size_t n, bool keep) {
  size_t all = pl_buf_len(&l->kept), held = all - l->joined;
  if (all == 0) {
    l->at += n;
    return keep ? keep_rest(l) : true;
  }
  if (n >= held) {
    l->at += n - held;
    pl_buf_skip(&l->kept, all);
  } else if (keep) {
    l->at += l->joined;
    pl_buf_skip(&l->kept, n);
  } else {
    l->kept.w -= l->joined;
    pl_buf_skip(&l->kept, n);
  }
  l->joined = 0;
  return true;
}
