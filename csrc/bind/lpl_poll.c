/* Which descriptors are ready? What Lua calls: one userdata over epoll, kqueue or poll(2), whichever this system has;
   the clock; and waits that block the process. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "lpl_poll.h"

#define POLLER "partline.poller"

static const backend *const backends[] = { /* best first */
#if defined(LPL_EPOLL)
    &lpl_poll_epoll,
#endif
#if defined(LPL_KQUEUE)
    &lpl_poll_kqueue,
#endif
    &lpl_poll_set,
    NULL,
};

/* ---- arguments and answers ---- */

static const char *code_of (int err) {
  switch (err) {
  case EBADF: return "closed";
  case ENOMEM:
  case ENOSPC: return "no-memory";
  case EMFILE:
  case ENFILE: return "too-many-files";
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
  poller *p = luaL_checkudata(L, 1, POLLER);
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
  if (lua_isnoneornil(L, arg)) return -1;
  double s = luaL_checknumber(L, arg);
  return s > 0 ? s : 0;
}

/* ---- life ---- */

static const backend *find_backend (const char *name) {
  if (name == NULL) return backends[0];
  for (size_t i = 0; backends[i] != NULL; i++)
    if (strcmp(backends[i]->name, name) == 0) return backends[i];
  return NULL;
}

/* poll.new([backend]) -> poller | nil, message, code. backend: "epoll", "kqueue" or "poll"; the best there is without
   one. */
static int new_poller (lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL);
  const backend *be = find_backend(name);
  if (be == NULL) {
    lua_pushnil(L);
    lua_pushfstring(L, "this system has no '%s'", name);
    lua_pushliteral(L, "not-available");
    return 3;
  }
  poller *p = lpl_newuserdata(L, sizeof *p, 0);
  memset(p, 0, sizeof *p);
  p->fd = -1;
  p->alloc = lua_getallocf(L, &p->ud);
  luaL_setmetatable(L, POLLER);
  int err = be->open(p);
  if (err != 0) return fail(L, err);
  p->be = be;
  return 1;
}

static void release (poller *p) {
  if (p->fd >= 0) close(p->fd);
  p->alloc(p->ud, p->info, p->ninfo * sizeof *p->info, 0);
  p->alloc(p->ud, p->always, p->capalways * sizeof *p->always, 0);
  p->alloc(p->ud, p->set, p->capset * sizeof *p->set, 0);
  p->be = NULL;
  p->fd = -1;
  p->info = NULL;
  p->always = NULL;
  p->set = NULL;
  p->ninfo = p->nalways = p->capalways = p->nset = p->capset = 0;
}

/* p:close(). Idempotent; also __gc and __close. */
static int poller_close (lua_State *L) {
  release(luaL_checkudata(L, 1, POLLER));
  return 0;
}

static int poller_tostring (lua_State *L) {
  poller *p = luaL_checkudata(L, 1, POLLER);
  lua_pushfstring(L, "poller (%s)", p->be != NULL ? p->be->name : "closed");
  return 1;
}

/* ---- watching ---- */

/* p:attach(fd) -> true: from now on every change is reported, no want() needed; false: want() is needed before each
   wait; or nil, message, code. Also for a number that was attached before, closed, and given out again. */
static int poller_attach (lua_State *L) {
  poller *p = to_poller(L);
  int fd = to_fd(L, 2);
  bool edge = p->be->edge;
  int err = lpl_poll_track(p, fd);
  if (err == 0) err = p->be->attach(p, fd);
  if (err == EPERM) { /* a regular file */
    edge = false;
    err = 0;
  }
  if (err != 0) return fail(L, err);
  clear_flag(p, fd, ATTACHED); /* may be left from an earlier owner of the number */
  if (edge) set_flag(p, fd, ATTACHED);
  lua_pushboolean(L, edge);
  return 1;
}

/* p:want(fd, "r" | "w") -> true | nil, message, code. One event, by a later wait(). Both modes may be wanted at a
   time. */
static int poller_want (lua_State *L) {
  poller *p = to_poller(L);
  int fd = to_fd(L, 2), mode = to_mode(L, 3), err = lpl_poll_track(p, fd);
  if (err == 0 && !(p->info[fd].flags & ATTACHED)) err = p->be->want(p, fd, mode);
  if (err != 0) return fail(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* p:detach(fd). No event of it is reported any more. Call it before the descriptor is closed. Harmless for an unknown
   one, and on a closed poller, since finalisers call it. */
static int poller_detach (lua_State *L) {
  poller *p = luaL_checkudata(L, 1, POLLER);
  int fd = to_fd(L, 2);
  if ((size_t)fd >= p->ninfo) return 0;
  p->be->detach(p, fd);
  if (p->info[fd].flags & (READ | WRITE)) lpl_poll_forget_always(p, fd);
  p->info[fd].flags = 0;
  return 0;
}

static int push_events (lua_State *L, const poller *p, int table) {
  for (int i = 0; i < p->nout; i++) {
    lua_pushinteger(L, p->out[i].fd);
    lua_rawseti(L, table, 2 * i + 1);
    lua_pushinteger(L, p->out[i].bits);
    lua_rawseti(L, table, 2 * i + 2);
  }
  lua_pushinteger(L, p->nout);
  return 1;
}

/* p:wait(seconds | nil, t) -> count | nil, message, code. Fills t[1..2*count] with fd, bits, fd, bits, ...; older
   entries behind them stay. 0 after the time or a signal. bits: 1 readable, 2 writable, 4 the peer has ended its
   side. */
static int poller_wait (lua_State *L) {
  poller *p = to_poller(L);
  double seconds = to_seconds(L, 2);
  int err = 0;
  luaL_checktype(L, 3, LUA_TTABLE);
  p->nout = 0;
  lpl_poll_report_always(p);
  if (p->nout < MAX_EVENTS) err = p->be->wait(p, p->nout > 0 ? 0 : seconds);
  if (err != 0 && err != EINTR) return fail(L, err);
  return push_events(L, p, 3);
}

/* p:fd() -> the descriptor that becomes readable when wait() has something to report, or nil (backend poll). */
static int poller_fd (lua_State *L) {
  poller *p = to_poller(L);
  if (p->fd >= 0) lua_pushinteger(L, p->fd);
  else lua_pushnil(L);
  return 1;
}

/* p:backend() -> "epoll", "kqueue" or "poll". */
static int poller_backend (lua_State *L) {
  lua_pushstring(L, to_poller(L)->be->name);
  return 1;
}

/* ---- the clock, and waits that block the process ---- */

/* poll.now() -> seconds on a clock that only goes forward. */
static int now (lua_State *L) {
  lua_pushnumber(L, lpl_now());
  return 1;
}

/* poll(2) on one descriptor up to a deadline, whatever signals come; less than 0: for ever. */
static int poll_one (struct pollfd *s, double deadline) {
  int n;
  do {
    double left = deadline < 0 ? -1 : deadline - lpl_now();
    if (deadline >= 0 && left < 0) left = 0;
    n = poll(s, 1, millis(left));
  } while (n < 0 && errno == EINTR);
  return n;
}

/* poll.wait_until(fd, "r" | "w" [, deadline]) -> true | nil, message, code; "timeout" when the time has come. deadline:
   as of now(). Blocks the process. */
static int wait_until (lua_State *L) {
  double deadline = to_seconds(L, 3);
  struct pollfd s;
  s.fd = to_fd(L, 1);
  s.events = to_mode(L, 2) == READ ? POLLIN : POLLOUT;
  s.revents = 0;
  int n = poll_one(&s, deadline);
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
static int sleep_for (lua_State *L) {
  struct pollfd s = {-1, 0, 0}; /* poll(2) passes over a negative descriptor */
  luaL_checknumber(L, 1);
  (void)poll_one(&s, lpl_now() + to_seconds(L, 1));
  return 0;
}

int lpl_open_poll (lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", poller_close}, {"__close", poller_close}, {"__tostring", poller_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"attach", poller_attach}, {"want", poller_want},       {"detach", poller_detach}, {"wait", poller_wait},
      {"fd", poller_fd},         {"backend", poller_backend}, {"close", poller_close},   {NULL, NULL},
  };
  static const luaL_Reg functions[] = {
      {"new", new_poller}, {"now", now}, {"wait_until", wait_until}, {"sleep", sleep_for}, {NULL, NULL}};
  if (luaL_newmetatable(L, POLLER)) {
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
