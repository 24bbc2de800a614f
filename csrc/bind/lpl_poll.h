/* What the files of the poller share: its inside, and what a backend is.

   Two ways to watch a descriptor:
     attach  once per connection; edge-triggered, both directions; waiting costs no system call afterwards
     want    once per wait; one-shot; asks the kernel again each time, so it survives a number that was closed and
             reused
   No protocol, no scheduling: partline.loop decides who is woken. */
#ifndef LPL_POLL_H
#define LPL_POLL_H

#include <limits.h>

#include "lpl.h"

/* Which backends there are beside poll(2). To try one over an emulation, define it from outside. */
#if defined(__linux__)
#define LPL_EPOLL 1
#endif
#if defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__)
#define LPL_KQUEUE 1
#endif

enum { MAX_EVENTS = 512 }; /* per wait(); what is left over is reported by the next one */

/* Event bits, as Lua sees them. */
enum { READ = 1,
       WRITE = 2,
       HANGUP = 4 }; /* the peer will send no more: an edge-triggered reader must not wait again */

/* Flags of a descriptor, beside READ and WRITE, which mean "armed". */
enum { ATTACHED = 8,
       KNOWN = 16 }; /* we think the kernel has it; it forgets on close without telling us */

typedef struct fdinfo {
  unsigned char flags;
  unsigned int slot; /* poll(2) only: index in set, plus one */
} fdinfo;

typedef struct event {
  int fd, bits;
} event;

typedef struct poller poller;

typedef struct backend { /* each function answers 0 or an errno value */
  const char *name;
  bool edge;             /* does an attached descriptor do without want()? */
  int (*open) (poller *p);
  int (*attach) (poller *p, int fd);
  int (*want) (poller *p, int fd, int mode);
  int (*detach) (poller *p, int fd);
  int (*wait) (poller *p, double seconds); /* appends to out; less than 0 waits for ever */
} backend;

struct poller {
  const backend *be; /* NULL: closed, or not yet open */
  int fd;            /* the epoll or kqueue descriptor, -1 if there is none */
  bool coarse;       /* epoll: the kernel knows milliseconds only */
  lua_Alloc alloc;
  void *ud;
  fdinfo *info;      /* indexed by descriptor */
  size_t ninfo;
  int *always;       /* wanted descriptors that cannot be polled (regular files): always ready */
  size_t nalways, capalways;
  struct pollfd *set; /* poll(2) only */
  size_t nset, capset;
  int nout;
  event out[MAX_EVENTS];
};

#if defined(LPL_EPOLL)
extern const backend lpl_poll_epoll;
#endif
#if defined(LPL_KQUEUE)
extern const backend lpl_poll_kqueue;
#endif
extern const backend lpl_poll_set;

/* ---- what a poller remembers: lpl_poll_table.c ---- */

/* Makes room for `need` items, doubling; what is new is zero. 0 or ENOMEM. */
int lpl_poll_grow (poller *p, void **mem, size_t *cap, size_t need, size_t size);

/* Makes info[fd] exist: before anything else is done with a descriptor. 0 or an errno value. */
int lpl_poll_track (poller *p, int fd);

/* A regular file is wanted: the next wait reports it. `armed` is what was wanted of it before. 0 or ENOMEM. */
int lpl_poll_want_always (poller *p, int fd, int armed);
void lpl_poll_forget_always (poller *p, int fd);
void lpl_poll_report_always (poller *p);

static inline void set_flag (poller *p, int fd, int flag) {
  p->info[fd].flags = (unsigned char)(p->info[fd].flags | flag);
}

static inline void clear_flag (poller *p, int fd, int flag) {
  p->info[fd].flags = (unsigned char)(p->info[fd].flags & ~flag);
}

static inline void report (poller *p, int fd, int bits) { p->out[p->nout++] = (event){fd, bits}; }

/* ---- time ---- */

/* As milliseconds, rounded up so that a timer never finds itself too early; -1: for ever. */
static inline int millis (double seconds) {
  double ms = seconds * 1000.0;
  if (seconds < 0) return -1;
  if (ms >= INT_MAX) return INT_MAX;
  int whole = (int)ms;
  return whole < ms ? whole + 1 : whole;
}

#endif
