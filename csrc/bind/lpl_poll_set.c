/* The poller over poll(2) (everywhere): a set of the descriptors that are wanted. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "lpl_poll.h"

static int set_open (poller *p) {
  p->fd = -1;
  return 0;
}

/* poll(2) cannot trigger on edges: attached or not, each wait is announced by want(). */
static int set_attach (poller *p, int fd) {
  (void)p;
  return fcntl(fd, F_GETFD) < 0 ? errno : 0;
}

static int set_want (poller *p, int fd, int mode) {
  fdinfo *f = &p->info[fd];
  if (f->slot == 0) {
    void *mem = p->set;
    int err = lpl_poll_grow(p, &mem, &p->capset, p->nset + 1, sizeof *p->set);
    p->set = mem;
    if (err != 0) return err;
    p->set[p->nset].fd = fd;
    p->set[p->nset].events = 0;
    f->slot = (unsigned int)++p->nset;
  }
  p->set[f->slot - 1].events = (short)(p->set[f->slot - 1].events | (mode == READ ? POLLIN : POLLOUT));
  return 0;
}

static int set_detach (poller *p, int fd) {
  unsigned int slot = p->info[fd].slot;
  if (slot == 0) return 0;
  p->set[slot - 1] = p->set[--p->nset];
  p->info[p->set[slot - 1].fd].slot = slot;
  p->info[fd].slot = 0; /* last, since fd may be the one that moved */
  return 0;
}

static int set_bits (short revents) {
  int bits = 0;
  if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) bits |= READ;
  if (revents & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) bits |= WRITE;
  return bits;
}

/* Reports entry i and takes what was reported out of its events. */
static void set_fired (poller *p, size_t i) {
  struct pollfd *s = &p->set[i];
  int bits = set_bits(s->revents);
  if (bits & READ) s->events = (short)(s->events & ~POLLIN);
  if (bits & WRITE) s->events = (short)(s->events & ~POLLOUT);
  report(p, s->fd, bits);
}

/* Closes the gaps in order, so that with more ready than MAX_EVENTS the oldest come first. */
static int set_wait (poller *p, double seconds) {
  size_t kept = 0;
  if (poll(p->set, (nfds_t)p->nset, millis(seconds)) < 0) return errno;
  for (size_t i = 0; i < p->nset; i++) {
    if (p->set[i].revents != 0 && p->nout < MAX_EVENTS) set_fired(p, i);
    if (p->set[i].events == 0) p->info[p->set[i].fd].slot = 0;
    else {
      p->set[kept++] = p->set[i];
      p->info[p->set[kept - 1].fd].slot = (unsigned int)kept;
    }
  }
  p->nset = kept;
  return 0;
}

const backend lpl_poll_set = {"poll", false, set_open, set_attach, set_want, set_detach, set_wait};
