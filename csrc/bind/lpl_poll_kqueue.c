/* The poller over kqueue (macOS, BSD). */
#include "lpl_poll.h"

#if defined(LPL_KQUEUE)
#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static int kq_open (poller *p) {
  p->fd = kqueue();
  if (p->fd < 0) return errno;
  (void)fcntl(p->fd, F_SETFD, FD_CLOEXEC);
  return 0;
}

static int kq_change (poller *p, int fd, int mode, int flags) {
  struct kevent ev;
  EV_SET(&ev, (uintptr_t)fd, mode == READ ? EVFILT_READ : EVFILT_WRITE, (unsigned short)flags, 0, 0, 0);
  return kevent(p->fd, &ev, 1, NULL, 0, NULL) < 0 ? errno : 0;
}

/* kqueue's read filter is silent at the end of a regular file; so such files are refused here, as epoll does. */
static int kq_check (int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0) return errno;
  return S_ISREG(st.st_mode) ? EPERM : 0;
}

/* A pipe's end has one direction only, so one of the two filters may be refused. */
static int kq_attach (poller *p, int fd) {
  int err = kq_check(fd);
  if (err != 0) return err;
  int r = kq_change(p, fd, READ, EV_ADD | EV_CLEAR);
  int w = kq_change(p, fd, WRITE, EV_ADD | EV_CLEAR);
  return r == 0 || w == 0 ? 0 : r;
}

static int kq_want (poller *p, int fd, int mode) {
  int armed = p->info[fd].flags & (READ | WRITE), err = kq_check(fd);
  if (err == EPERM) err = lpl_poll_want_always(p, fd, armed);
  else if (err == 0) err = kq_change(p, fd, mode, EV_ADD | EV_ONESHOT);
  if (err == 0) set_flag(p, fd, mode);
  return err;
}

static int kq_detach (poller *p, int fd) {
  (void)kq_change(p, fd, READ, EV_DELETE);
  (void)kq_change(p, fd, WRITE, EV_DELETE);
  return 0; /* gone already is as good */
}

static int kq_bits (const struct kevent *ev) {
  int bits = ev->filter == EVFILT_WRITE ? WRITE : READ;
  if (ev->flags & EV_ERROR) return READ | WRITE;
  if ((ev->flags & EV_EOF) && bits == READ) bits |= HANGUP;
  return bits;
}

static int kq_wait (poller *p, double seconds) {
  struct kevent raw[MAX_EVENTS];
  struct timespec ts = {0, 0};
  if (seconds > INT_MAX) seconds = INT_MAX;
  if (seconds > 0) {
    ts.tv_sec = (time_t)seconds;
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
  }
  int n = kevent(p->fd, NULL, 0, raw, MAX_EVENTS - p->nout, seconds < 0 ? NULL : &ts);
  if (n < 0) return errno;
  for (int i = 0; i < n; i++) {
    int fd = (int)raw[i].ident, bits = kq_bits(&raw[i]);
    clear_flag(p, fd, bits & (READ | WRITE));
    report(p, fd, bits);
  }
  return 0;
}

const backend lpl_poll_kqueue = {"kqueue", true, kq_open, kq_attach, kq_want, kq_detach, kq_wait};
#endif
