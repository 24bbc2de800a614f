/*
** lpl_poll.c: which descriptors are ready? One userdata over epoll (Linux), kqueue (macOS, BSD) and poll(2) (everywhere).
**
** Two ways to watch a descriptor:
**   attach  once per connection; edge-triggered, both directions; waiting costs no system call afterwards
**   want    once per wait; one-shot; asks the kernel again each time, so it survives a number that was closed and reused
**
** No protocol, no scheduling: partline.loop decides who is woken.
*/

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE             /* EPOLLRDHUP, clock_gettime under -std=c11 */
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#define LPL_EPOLL 1
#include <sys/epoll.h>
#include <sys/syscall.h>
#endif

#if defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__)
#define LPL_KQUEUE 1
#include <sys/types.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <sys/time.h>
#endif

#include "lua.h"
#include "lauxlib.h"

#if LUA_VERSION_NUM < 504
#define lua_newuserdatauv(L, size, n) lua_newuserdata(L, size)
#endif

#define POLLER_T "partline.poller"
#define MAX_EVENTS 512          /* per wait(); what is left over is reported by the next one */

enum {                          /* event bits, as Lua sees them */
  READ = 1,
  WRITE = 2,
  HANGUP = 4                    /* the peer will send no more: an edge-triggered reader must not wait again */
};

enum {                          /* per descriptor, beside READ and WRITE, which mean "armed" */
  ATTACHED = 8,
  KNOWN = 16                    /* we think the kernel has it; it forgets on close without telling us */
};

typedef struct fdinfo {
  unsigned char flags;
  unsigned int slot;            /* poll(2) only: index in set, plus one */
} fdinfo;

typedef struct event {
  int fd;
  int bits;
} event;

typedef struct poller poller;

typedef struct backend {        /* each function answers 0 or an errno value */
  const char *name;
  int edge;                     /* does an attached descriptor do without want()? */
  int (*open) (poller *p);
  int (*attach) (poller *p, int fd);
  int (*want) (poller *p, int fd, int mode);
  int (*detach) (poller *p, int fd);
  int (*wait) (poller *p, double seconds);      /* appends to out; less than 0 waits for ever */
} backend;

struct poller {
  const backend *be;            /* NULL: closed, or not yet open */
  int fd;                       /* the epoll or kqueue descriptor, -1 if there is none */
  int coarse;                   /* epoll: the kernel knows milliseconds only */
  lua_Alloc alloc;
  void *ud;
  fdinfo *info;                 /* indexed by descriptor */
  size_t ninfo;
  int *always;                  /* wanted descriptors that cannot be polled (regular files): always ready */
  size_t nalways, capalways;
  struct pollfd *set;           /* poll(2) only */
  size_t nset, capset;
  int nout;
  event out[MAX_EVENTS];
};


/* {== memory and bookkeeping, shared by the backends == */

/* Makes room for `need` items, doubling; what is new is zero. 0 or ENOMEM. */
static int grow (poller *p, void **mem, size_t *cap, size_t need, size_t size) {
  size_t n = *cap < 32 ? 32 : *cap;
  void *block;
  while (n < need) n *= 2;
  if (need <= *cap) return 0;
  block = p->alloc(p->ud, *mem, *cap * size, n * size);
  if (block == NULL) return ENOMEM;
  memset((char *)block + *cap * size, 0, (n - *cap) * size);
  *mem = block;
  *cap = n;
  return 0;
}

/* Makes info[fd] exist. A number beyond the table is checked first: a wild one must not allocate gigabytes. */
static int track (poller *p, int fd) {
  void *mem = p->info;
  int err;
  if ((size_t)fd < p->ninfo) return 0;
  if (fcntl(fd, F_GETFD) < 0) return errno;
  err = grow(p, &mem, &p->ninfo, (size_t)fd + 1, sizeof *p->info);
  p->info = mem;
  return err;
}

static void report (poller *p, int fd, int bits) {
  p->out[p->nout].fd = fd;
  p->out[p->nout++].bits = bits;
}

static void set_flag (poller *p, int fd, int flag) {
  p->info[fd].flags = (unsigned char)(p->info[fd].flags | flag);
}

static void clear_flag (poller *p, int fd, int flag) {
  p->info[fd].flags = (unsigned char)(p->info[fd].flags & ~flag);
}

/* A regular file is wanted: the next wait reports it. `armed` is what was wanted of it before. */
static int want_always (poller *p, int fd, int armed) {
  void *mem = p->always;
  int err;
  if (armed != 0) return 0;               /* listed already */
  err = grow(p, &mem, &p->capalways, p->nalways + 1, sizeof *p->always);
  p->always = mem;
  if (err == 0) p->always[p->nalways++] = fd;
  return err;
}

static void forget_always (poller *p, int fd) {
  size_t i, kept = 0;
  for (i = 0; i < p->nalways; i++)
    if (p->always[i] != fd) p->always[kept++] = p->always[i];
  p->nalways = kept;
}

static void report_always (poller *p) {
  while (p->nalways > 0 && p->nout < MAX_EVENTS) {
    int fd = p->always[--p->nalways];
    int bits = p->info[fd].flags & (READ | WRITE);
    clear_flag(p, fd, READ | WRITE);
    if (bits != 0) report(p, fd, bits);
  }
}

/* == memory and bookkeeping ==} */


/* {== time == */

/* As milliseconds, rounded up so that a timer never finds itself too early; -1: for ever. */
static int millis (double seconds) {
  double ms = seconds * 1000.0;
  int whole;
  if (seconds < 0) return -1;
  if (ms >= INT_MAX) return INT_MAX;
  whole = (int)ms;
  return whole < ms ? whole + 1 : whole;
}

/* == time ==} */


#if defined(LPL_EPOLL)
/* {== epoll == */

static int ep_open (poller *p) {
  p->fd = epoll_create1(EPOLL_CLOEXEC);
  return p->fd < 0 ? errno : 0;
}

/* Registers or changes, whichever the kernel needs: our idea of what it knows may be stale after a close. */
static int ep_set (poller *p, int fd, uint32_t events) {
  int op = (p->info[fd].flags & KNOWN) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  int tries;
  for (tries = 0; tries < 2; tries++) {
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
  if (err == EPERM) err = want_always(p, fd, armed);
  if (err == 0) set_flag(p, fd, mode);
  return err;
}

static int ep_detach (poller *p, int fd) {
  struct epoll_event ev;                  /* Linux before 2.6.9 wants one */
  memset(&ev, 0, sizeof ev);
  if (p->info[fd].flags & KNOWN) (void)epoll_ctl(p->fd, EPOLL_CTL_DEL, fd, &ev);
  return 0;                               /* gone already is as good */
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
    long long time[2];          /* as the kernel's timespec is everywhere */
    int n;
    time[0] = (long long)seconds;
    time[1] = (long long)((seconds - (double)time[0]) * 1e9);
    n = (int)syscall(SYS_epoll_pwait2, p->fd, raw, room, time, NULL, (size_t)0);
    if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n;
    p->coarse = 1;              /* an old kernel, or a sandbox */
  }
#endif
  return epoll_wait(p->fd, raw, room, millis(seconds));
}

static int ep_wait (poller *p, double seconds) {
  struct epoll_event raw[MAX_EVENTS];
  int i, n = ep_call(p, raw, MAX_EVENTS - p->nout, seconds);
  if (n < 0) return errno;
  for (i = 0; i < n; i++) {
    int fd = raw[i].data.fd, bits = ep_bits(raw[i].events);
    if (!(p->info[fd].flags & ATTACHED)) ep_fired(p, fd, bits);
    report(p, fd, bits);
  }
  return 0;
}

static const backend epoll_backend = { "epoll", 1, ep_open, ep_attach, ep_want, ep_detach, ep_wait };

/* == epoll ==} */
#endif


#if defined(LPL_KQUEUE)
/* {== kqueue == */

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
  int err = kq_check(fd), r, w;
  if (err != 0) return err;
  r = kq_change(p, fd, READ, EV_ADD | EV_CLEAR);
  w = kq_change(p, fd, WRITE, EV_ADD | EV_CLEAR);
  return r == 0 || w == 0 ? 0 : r;
}

static int kq_want (poller *p, int fd, int mode) {
  int armed = p->info[fd].flags & (READ | WRITE), err = kq_check(fd);
  if (err == EPERM) err = want_always(p, fd, armed);
  else if (err == 0) err = kq_change(p, fd, mode, EV_ADD | EV_ONESHOT);
  if (err == 0) set_flag(p, fd, mode);
  return err;
}

static int kq_detach (poller *p, int fd) {
  (void)kq_change(p, fd, READ, EV_DELETE);
  (void)kq_change(p, fd, WRITE, EV_DELETE);
  return 0;                               /* gone already is as good */
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
  int i, n;
  if (seconds > INT_MAX) seconds = INT_MAX;
  if (seconds > 0) {
    ts.tv_sec = (time_t)seconds;
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
  }
  n = kevent(p->fd, NULL, 0, raw, MAX_EVENTS - p->nout, seconds < 0 ? NULL : &ts);
  if (n < 0) return errno;
  for (i = 0; i < n; i++) {
    int fd = (int)raw[i].ident, bits = kq_bits(&raw[i]);
    clear_flag(p, fd, bits & (READ | WRITE));
    report(p, fd, bits);
  }
  return 0;
}

static const backend kqueue_backend = { "kqueue", 1, kq_open, kq_attach, kq_want, kq_detach, kq_wait };

/* == kqueue ==} */
#endif


/* {== poll(2) == */

static int pl_open (poller *p) {
  p->fd = -1;
  return 0;
}

/* poll(2) cannot trigger on edges: attached or not, each wait is announced by want(). */
static int pl_attach (poller *p, int fd) {
  (void)p;
  return fcntl(fd, F_GETFD) < 0 ? errno : 0;
}

static int pl_want (poller *p, int fd, int mode) {
  fdinfo *f = &p->info[fd];
  if (f->slot == 0) {
    void *mem = p->set;
    int err = grow(p, &mem, &p->capset, p->nset + 1, sizeof *p->set);
    p->set = mem;
    if (err != 0) return err;
    p->set[p->nset].fd = fd;
    p->set[p->nset].events = 0;
    f->slot = (unsigned int)++p->nset;
  }
  p->set[f->slot - 1].events = (short)(p->set[f->slot - 1].events | (mode == READ ? POLLIN : POLLOUT));
  return 0;
}

static int pl_detach (poller *p, int fd) {
  unsigned int slot = p->info[fd].slot;
  if (slot == 0) return 0;
  p->set[slot - 1] = p->set[--p->nset];
  p->info[p->set[slot - 1].fd].slot = slot;
  p->info[fd].slot = 0;                   /* last, since fd may be the one that moved */
  return 0;
}

static int pl_bits (short revents) {
  int bits = 0;
  if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) bits |= READ;
  if (revents & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) bits |= WRITE;
  return bits;
}

/* Reports entry i and takes what was reported out of its events. */
static void pl_fired (poller *p, size_t i) {
  struct pollfd *s = &p->set[i];
  int bits = pl_bits(s->revents);
  if (bits & READ) s->events = (short)(s->events & ~POLLIN);
  if (bits & WRITE) s->events = (short)(s->events & ~POLLOUT);
  report(p, s->fd, bits);
}

/* Closes the gaps in order, so that with more ready than MAX_EVENTS the oldest come first. */
static int pl_wait (poller *p, double seconds) {
  size_t i, kept = 0;
  if (poll(p->set, (nfds_t)p->nset, millis(seconds)) < 0) return errno;
  for (i = 0; i < p->nset; i++) {
    if (p->set[i].revents != 0 && p->nout < MAX_EVENTS) pl_fired(p, i);
    if (p->set[i].events == 0) p->info[p->set[i].fd].slot = 0;
    else {
      p->set[kept++] = p->set[i];
      p->info[p->set[kept - 1].fd].slot = (unsigned int)kept;
    }
  }
  p->nset = kept;
  return 0;
}

static const backend poll_backend = { "poll", 0, pl_open, pl_attach, pl_want, pl_detach, pl_wait };

/* == poll(2) ==} */


/* {== Lua == */

static const backend *const backends[] = {      /* best first */
#if defined(LPL_EPOLL)
  &epoll_backend,
#endif
#if defined(LPL_KQUEUE)
  &kqueue_backend,
#endif
  &poll_backend,
  NULL
};

static const char *code_of (int err) {
  switch (err) {
    case EBADF: return "closed";
    case ENOMEM: case ENOSPC: return "no-memory";
    case EMFILE: case ENFILE: return "too-many-files";
    default: return "poll-failed";
  }
}

static int fail (lua_State *L, int err) {
  lua_pushnil(L);
  lua_pushstring(L, strerror(err));
  lua_pushstring(L, code_of(err));
  return 3;
}

/* The first argument as an open poller; a closed one is misuse. */
static poller *to_poller (lua_State *L) {
  poller *p = luaL_checkudata(L, 1, POLLER_T);
  if (p->be == NULL) luaL_argerror(L, 1, "poller is closed");
  return p;
}

static int to_fd (lua_State *L, int arg) {
  lua_Integer fd = luaL_checkinteger(L, arg);
  luaL_argcheck(L, fd >= 0 && fd < INT_MAX, arg, "not a descriptor");
  return (int)fd;
}

static int to_mode (lua_State *L, int arg) {
  const char *mode = luaL_checkstring(L, arg);
  if (mode[0] == 'r' && mode[1] == 0) return READ;
  if (mode[0] == 'w' && mode[1] == 0) return WRITE;
  return luaL_argerror(L, arg, "mode must be \"r\" or \"w\"");
}

/* Seconds; -1 for nil. */
static double to_seconds (lua_State *L, int arg) {
  double s;
  if (lua_isnoneornil(L, arg)) return -1;
  s = luaL_checknumber(L, arg);
  return s > 0 ? s : 0;
}

static double monotonic (void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void release (poller *p) {
  if (p->fd >= 0) close(p->fd);
  p->alloc(p->ud, p->info, p->ninfo * sizeof *p->info, 0);
  p->alloc(p->ud, p->always, p->capalways * sizeof *p->always, 0);
  p->alloc(p->ud, p->set, p->capset * sizeof *p->set, 0);
  p->be = NULL;
  p->fd = -1;
  p->info = NULL; p->always = NULL; p->set = NULL;
  p->ninfo = p->nalways = p->capalways = p->nset = p->capset = 0;
}

/* p:close(). Idempotent; also __gc and __close. */
static int p_close (lua_State *L) {
  release(luaL_checkudata(L, 1, POLLER_T));
  return 0;
}

static const backend *find_backend (const char *name) {
  size_t i;
  for (i = 0; name != NULL && backends[i] != NULL; i++)
    if (strcmp(backends[i]->name, name) == 0) return backends[i];
  return name == NULL ? backends[0] : NULL;
}

/* poll.new([backend]) -> poller | nil, message, code. backend: "epoll", "kqueue" or "poll"; the best there is without one. */
static int l_new (lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL);
  const backend *be = find_backend(name);
  poller *p;
  int err;
  if (be == NULL) {
    lua_pushnil(L);
    lua_pushfstring(L, "this system has no '%s'", name);
    lua_pushliteral(L, "not-available");
    return 3;
  }
  p = lua_newuserdatauv(L, sizeof *p, 0);
  memset(p, 0, sizeof *p);
  p->fd = -1;
  p->alloc = lua_getallocf(L, &p->ud);
  luaL_setmetatable(L, POLLER_T);
  err = be->open(p);
  if (err != 0) return fail(L, err);
  p->be = be;
  return 1;
}

/* p:attach(fd) -> true: from now on every change is reported, no want() needed; false: want() is needed before each
** wait; or nil, message, code. Also for a number that was attached before, closed, and given out again. */
static int p_attach (lua_State *L) {
  poller *p = to_poller(L);
  int fd = to_fd(L, 2), edge = p->be->edge, err = track(p, fd);
  if (err == 0) err = p->be->attach(p, fd);
  if (err == EPERM) edge = err = 0;       /* a regular file */
  if (err != 0) return fail(L, err);
  clear_flag(p, fd, ATTACHED);            /* may be left from an earlier owner of the number */
  if (edge) set_flag(p, fd, ATTACHED);
  lua_pushboolean(L, edge);
  return 1;
}

/* p:want(fd, "r" | "w") -> true | nil, message, code. One event, by a later wait(). Both modes may be wanted at a time. */
static int p_want (lua_State *L) {
  poller *p = to_poller(L);
  int fd = to_fd(L, 2), mode = to_mode(L, 3), err = track(p, fd);
  if (err == 0 && !(p->info[fd].flags & ATTACHED)) err = p->be->want(p, fd, mode);
  if (err != 0) return fail(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* p:detach(fd). No event of it is reported any more. Call it before the descriptor is closed. Harmless for an unknown
** one, and on a closed poller, since finalisers call it. */
static int p_detach (lua_State *L) {
  poller *p = luaL_checkudata(L, 1, POLLER_T);
  int fd = to_fd(L, 2);
  if ((size_t)fd >= p->ninfo) return 0;
  p->be->detach(p, fd);
  if (p->info[fd].flags & (READ | WRITE)) forget_always(p, fd);
  p->info[fd].flags = 0;
  return 0;
}

static int push_events (lua_State *L, const poller *p, int table) {
  int i;
  for (i = 0; i < p->nout; i++) {
    lua_pushinteger(L, p->out[i].fd);
    lua_rawseti(L, table, 2 * i + 1);
    lua_pushinteger(L, p->out[i].bits);
    lua_rawseti(L, table, 2 * i + 2);
  }
  lua_pushinteger(L, p->nout);
  return 1;
}

/* p:wait(seconds | nil, t) -> count | nil, message, code. Fills t[1..2*count] with fd, bits, fd, bits, ...; older
** entries behind them stay. 0 after the time or a signal. bits: 1 readable, 2 writable, 4 the peer has ended its side. */
static int p_wait (lua_State *L) {
  poller *p = to_poller(L);
  double seconds = to_seconds(L, 2);
  int err = 0;
  luaL_checktype(L, 3, LUA_TTABLE);
  p->nout = 0;
  report_always(p);
  if (p->nout < MAX_EVENTS) err = p->be->wait(p, p->nout > 0 ? 0 : seconds);
  if (err != 0 && err != EINTR) return fail(L, err);
  return push_events(L, p, 3);
}

/* p:fd() -> the descriptor that becomes readable when wait() has something to report, or nil (backend poll). */
static int p_fd (lua_State *L) {
  poller *p = to_poller(L);
  if (p->fd >= 0) lua_pushinteger(L, p->fd);
  else lua_pushnil(L);
  return 1;
}

/* p:backend() -> "epoll", "kqueue" or "poll". */
static int p_backend (lua_State *L) {
  lua_pushstring(L, to_poller(L)->be->name);
  return 1;
}

static int p_tostring (lua_State *L) {
  poller *p = luaL_checkudata(L, 1, POLLER_T);
  lua_pushfstring(L, "poller (%s)", p->be != NULL ? p->be->name : "closed");
  return 1;
}

/* poll.now() -> seconds on a clock that only goes forward. */
static int l_now (lua_State *L) {
  lua_pushnumber(L, monotonic());
  return 1;
}

/* poll(2) on one descriptor up to a deadline, whatever signals come; less than 0: for ever. */
static int poll_one (struct pollfd *s, double deadline) {
  int n;
  do {
    double left = deadline < 0 ? -1 : deadline - monotonic();
    if (deadline >= 0 && left < 0) left = 0;
    n = poll(s, 1, millis(left));
  } while (n < 0 && errno == EINTR);
  return n;
}

/* poll.wait_until(fd, "r" | "w" [, deadline]) -> true | nil, message, code; "timeout" when the time has come. deadline:
** as of now(). Blocks the process. */
static int l_wait_until (lua_State *L) {
  double deadline = to_seconds(L, 3);
  struct pollfd s;
  int n;
  s.fd = to_fd(L, 1);
  s.events = to_mode(L, 2) == READ ? POLLIN : POLLOUT;
  s.revents = 0;
  n = poll_one(&s, deadline);
  if (n < 0) return fail(L, errno);
  if (s.revents & POLLNVAL) return fail(L, EBADF);
  if (n == 0) {
    lua_pushnil(L);
    lua_pushliteral(L, "timed out");
    lua_pushliteral(L, "timeout");
    return 3;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* poll.sleep(seconds). Blocks the process. */
static int l_sleep (lua_State *L) {
  struct pollfd s = { -1, 0, 0 };         /* poll(2) passes over a negative descriptor */
  luaL_checknumber(L, 1);
  (void)poll_one(&s, monotonic() + to_seconds(L, 1));
  return 0;
}

static const luaL_Reg library[] = {
  {"new", l_new}, {"now", l_now}, {"wait_until", l_wait_until}, {"sleep", l_sleep}, {NULL, NULL}
};

static const luaL_Reg methods[] = {
  {"attach", p_attach}, {"want", p_want}, {"detach", p_detach}, {"wait", p_wait}, {"fd", p_fd}, {"backend", p_backend},
  {"close", p_close}, {NULL, NULL}
};

static const luaL_Reg metamethods[] = {
  {"__gc", p_close}, {"__close", p_close}, {"__tostring", p_tostring}, {NULL, NULL}
};

/* Pushes the table that is partline.core's field `poll`. */
int lpl_open_poll (lua_State *L) {
  if (luaL_newmetatable(L, POLLER_T)) {
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
  luaL_newlib(L, library);
  return 1;
}

/* == Lua ==} */
