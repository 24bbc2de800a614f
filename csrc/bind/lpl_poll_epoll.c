/* The poller over epoll (Linux). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "lpl_poll.h"

#if defined(LPL_EPOLL)
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ep_open (poller *p) {
  p->fd = epoll_create1(EPOLL_CLOEXEC);
  return p->fd < 0 ? errno : 0;
}

/* Registers or changes, whichever the kernel needs: our idea of what it knows may be stale after a close. */
static int ep_set (poller *p, int fd, uint32_t events) {
  int op = (p->info[fd].flags & KNOWN) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  for (int tries = 0; tries < 2; tries++) {
    struct epoll_event ev;
    memset(&ev, 0, sizeof ev);
    ev.events = events;
    ev.data.fd = fd;
    if (epoll_ctl(p->fd, op, fd, &ev) == 0) {
      set_flag(p, fd, KNOWN);
      return 0;
    }
    if (op == EPOLL_CTL_MOD && errno == ENOENT) op = EPOLL_CTL_ADD;
    else if (op == EPOLL_CTL_ADD && errno == EEXIST) op = EPOLL_CTL_MOD;
    else break;
  }
  return errno;
}

static int ep_attach (poller *p, int fd) {
  return ep_set(p, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static int ep_arm (poller *p, int fd, int modes) {
  uint32_t events = EPOLLONESHOT;
  if (modes & READ) events |= EPOLLIN | EPOLLRDHUP;
  if (modes & WRITE) events |= EPOLLOUT;
  return ep_set(p, fd, events);
}

static int ep_want (poller *p, int fd, int mode) {
  int armed = p->info[fd].flags & (READ | WRITE);
  int err = ep_arm(p, fd, armed | mode);
  if (err == EPERM) err = lpl_poll_want_always(p, fd, armed);
  if (err == 0) set_flag(p, fd, mode);
  return err;
}

static int ep_detach (poller *p, int fd) {
  struct epoll_event ev; /* Linux before 2.6.9 wants one */
  memset(&ev, 0, sizeof ev);
  if (p->info[fd].flags & KNOWN) (void)epoll_ctl(p->fd, EPOLL_CTL_DEL, fd, &ev);
  return 0; /* gone already is as good */
}

static int ep_bits (uint32_t events) {
  int bits = 0;
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) bits |= READ;
  if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) bits |= WRITE;
  if (events & EPOLLRDHUP) bits |= HANGUP;
  return bits;
}

/* A one-shot event disarms both directions: the one that did not fire is armed again. */
static void ep_fired (poller *p, int fd, int bits) {
  int left = p->info[fd].flags & (READ | WRITE) & ~bits;
  clear_flag(p, fd, READ | WRITE);
  if (left != 0 && ep_arm(p, fd, left) == 0) set_flag(p, fd, left);
}

/* epoll_pwait2 (Linux 5.11) knows nanoseconds: a millisecond that is rounded up is half of one too late in the mean. */
static int ep_call (poller *p, struct epoll_event *raw, int room, double seconds) {
#if defined(SYS_epoll_pwait2)
  if (seconds > 0 && seconds < INT_MAX && !p->coarse) {
    long long time[2]; /* as the kernel's timespec is everywhere */
    time[0] = (long long)seconds;
    time[1] = (long long)((seconds - (double)time[0]) * 1e9);
    int n = (int)syscall(SYS_epoll_pwait2, p->fd, raw, room, time, NULL, (size_t)0);
    if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n;
    p->coarse = true; /* an old kernel, or a sandbox */
  }
#endif
  return epoll_wait(p->fd, raw, room, millis(seconds));
}

static int ep_wait (poller *p, double seconds) {
  struct epoll_event raw[MAX_EVENTS];
  int n = ep_call(p, raw, MAX_EVENTS - p->nout, seconds);
  if (n < 0) return errno;
  for (int i = 0; i < n; i++) {
    int fd = raw[i].data.fd, bits = ep_bits(raw[i].events);
    if (!(p->info[fd].flags & ATTACHED)) ep_fired(p, fd, bits);
    report(p, fd, bits);
  }
  return 0;
}

const backend lpl_poll_epoll = {"epoll", true, ep_open, ep_attach, ep_want, ep_detach, ep_wait};
#endif
