/* What a poller remembers, whatever its backend: flags of each descriptor, and which wanted ones cannot be polled. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lpl_poll.h"

int lpl_poll_grow (poller *p, void **mem, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return 0;
  size_t n = *cap < 32 ? 32 : *cap;
  while (n < need) n *= 2;
  void *block = p->alloc(p->ud, *mem, *cap * size, n * size);
  if (block == NULL) return ENOMEM;
  memset((char *)block + *cap * size, 0, (n - *cap) * size);
  *mem = block;
  *cap = n;
  return 0;
}

/* A number beyond the table is checked first: a wild one must not allocate gigabytes. */
int lpl_poll_track (poller *p, int fd) {
  if ((size_t)fd < p->ninfo) return 0;
  if (fcntl(fd, F_GETFD) < 0) return errno;
  void *mem = p->info;
  int err = lpl_poll_grow(p, &mem, &p->ninfo, (size_t)fd + 1, sizeof *p->info);
  p->info = mem;
  return err;
}

int lpl_poll_want_always (poller *p, int fd, int armed) {
  if (armed != 0) return 0; /* listed already */
  void *mem = p->always;
  int err = lpl_poll_grow(p, &mem, &p->capalways, p->nalways + 1, sizeof *p->always);
  p->always = mem;
  if (err == 0) p->always[p->nalways++] = fd;
  return err;
}

void lpl_poll_forget_always (poller *p, int fd) {
  size_t kept = 0;
  for (size_t i = 0; i < p->nalways; i++)
    if (p->always[i] != fd) p->always[kept++] = p->always[i];
  p->nalways = kept;
}

void lpl_poll_report_always (poller *p) {
  while (p->nalways > 0 && p->nout < MAX_EVENTS) {
    int fd = p->always[--p->nalways];
    int bits = p->info[fd].flags & (READ | WRITE);
    clear_flag(p, fd, READ | WRITE);
    if (bits != 0) report(p, fd, bits);
  }
}
