/* The Writer class: gathers small writes, sends large ones without a copy, waits when the peer is slow. Over a
   descriptor, or over a function(bytes) that sends them all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lpl_writer.h"

#ifndef MSG_DONTWAIT
#define MSG_DONTWAIT 0
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum {
  KEEP = 16 * 1024,
  LITTLE = 4 * 1024,
  FAIR_RUN = 1024 * 1024 /* bytes a peer may take without a pause before the others have their turn */
};

#define WAIT_KEY "partline.wait" /* registry: function(fd, mode, deadline) for sockets that nobody wrapped */

static pl_got failed (lpl_writer *w, pl_err e, int os_error) {
  w->err = e;
  w->os_error = os_error;
  return PL_FAIL;
}

static pl_got usable (lpl_writer *w) {
  if (w->closed || w->fd < 0 || (w->live && *w->live != w->fd)) return failed(w, PL_E_CLOSED, 0);
  return w->err ? PL_FAIL : PL_END;
}

/* What a send of the system has told: how much went, or 0 with *got = PL_MORE or PL_FAIL. */
static size_t account (lpl_writer *w, ssize_t k, pl_got *got) {
  w->full = k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  if (k >= 0) {
    w->sent += (uint64_t)k;
    w->run += (size_t)k;
    return (size_t)k;
  }
  *got = w->full ? PL_MORE : failed(w, PL_E_WRITE_FAILED, errno);
  return 0;
}

/* The queue, then n bytes at p, in one call. */
static size_t send_both (lpl_writer *w, const char *p, size_t n, pl_got *got) {
  pl_slice q = pl_buf_peek(&w->q);
  struct iovec io[2] = {{(void *)(uintptr_t)q.p, q.n}, {(void *)(uintptr_t)p, n}};
  struct msghdr m = {.msg_iov = q.n ? io : io + 1, .msg_iovlen = (q.n && n) ? 2 : 1};
  ssize_t k;
  do k = sendmsg(w->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (k < 0 && errno == EINTR);
  return account(w, k, got);
}

/* PL_END when the queue and all n bytes are gone. */
static pl_got send_now (lpl_writer *w, const char *p, size_t n, size_t *taken) {
  pl_got got = PL_END;
  while (got == PL_END && pl_buf_len(&w->q) + n - *taken > 0) {
    if (w->run >= FAIR_RUN) return PL_MORE;
    size_t k = send_both(w, p + *taken, n - *taken, &got), queued = pl_buf_len(&w->q);
    if (k < queued) {
      pl_buf_skip(&w->q, k);
    } else {
      pl_buf_skip(&w->q, queued);
      *taken += k - queued;
    }
  }
  if (pl_buf_len(&w->q) == 0) pl_buf_free(&w->q); /* between two writes it holds no memory */
  return got;
}

pl_got lpl_writer_put (lpl_writer *w, const char *p, size_t n, size_t *taken) {
  *taken = 0;
  if (usable(w) == PL_FAIL) return PL_FAIL;
  size_t queued = pl_buf_len(&w->q);
  bool gather = queued + n <= w->keep || (w->through_call && queued < w->keep);
  if (gather) {
    if (!pl_buf_append(&w->q, p, n)) return failed(w, PL_E_NO_MEMORY, 0);
    *taken = n;
    return PL_END;
  }
  return w->through_call ? PL_MORE : send_now(w, p, n, taken);
}

pl_got lpl_writer_flush (lpl_writer *w) {
  size_t taken = 0;
  if (usable(w) == PL_FAIL) return PL_FAIL;
  if (w->through_call) return pl_buf_len(&w->q) > 0 ? PL_MORE : PL_END;
  return send_now(w, NULL, 0, &taken);
}

bool lpl_writer_free (lpl_writer *w) {
  return !w->through_call && pl_buf_len(&w->q) == 0 && w->run < FAIR_RUN && usable(w) == PL_END;
}

/* What is little goes in one piece: for the system that is less to look at. */
static ssize_t send_slices (lpl_writer *w, pl_slice a, pl_slice b) {
  char little[LITTLE];
  if (a.n + b.n <= sizeof little) {
    memcpy(little, a.p, a.n);
    memcpy(little + a.n, b.p, b.n);
    return send(w->fd, little, a.n + b.n, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  struct iovec io[2] = {{(void *)(uintptr_t)a.p, a.n}, {(void *)(uintptr_t)b.p, b.n}};
  struct msghdr m = {.msg_iov = io, .msg_iovlen = 2};
  return sendmsg(w->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool lpl_writer_gather (lpl_writer *w, pl_slice s) {
  if (pl_buf_append(&w->q, s.p, s.n)) return true;
  failed(w, PL_E_NO_MEMORY, 0);
  return false;
}

bool lpl_writer_send_both (lpl_writer *w, pl_slice a, pl_slice b) {
  pl_got got = PL_END;
  size_t gone = account(w, send_slices(w, a, b), &got);
  if (gone == a.n + b.n) return true;
  if (got == PL_FAIL) return false;
  size_t first = gone < a.n ? gone : a.n;
  a = (pl_slice){a.p + first, a.n - first};
  b = (pl_slice){b.p + (gone - first), b.n - (gone - first)};
  if (lpl_writer_gather(w, a)) lpl_writer_gather(w, b);
  return false;
}

int lpl_writer_wait_begin (lua_State *L, int idx) {
  lpl_writer *w = lua_touserdata(L, idx);
  luaL_checkstack(L, 8, NULL);
  lpl_getuv(L, idx, LPL_UV_SEND);
  if (w->through_call) {
    pl_slice q = pl_buf_peek(&w->q);
    lua_pushlstring(L, q.p, q.n);
    w->sent += q.n;
    pl_buf_free(&w->q);
    return 1;
  }
  lua_pushinteger(L, w->fd);
  lua_pushliteral(L, "w");
  if (w->timeout > 0) lua_pushnumber(L, lpl_now() + w->timeout);
  else lua_pushnil(L);
  lua_pushboolean(L, !w->full); /* then it is only the turn of others */
  return 4;
}

void lpl_writer_wait_end (lua_State *L, int idx) {
  lpl_writer *w = lua_touserdata(L, idx);
  w->run = 0;
  if (!lua_toboolean(L, -3)) {
    const char *code = lua_tostring(L, -1);
    bool timeout = code && strcmp(code, pl_err_code(PL_E_TIMEOUT)) == 0;
    failed(w, timeout ? PL_E_TIMEOUT : w->through_call ? PL_E_WRITE_FAILED : PL_E_CLOSED, 0);
  }
  lua_pop(L, LPL_WAIT_RESULTS);
}

int lpl_writer_fail (lua_State *L, const lpl_writer *w) {
  return w->os_error ? lpl_fail_errno(L, w->err, w->os_error) : lpl_fail(L, w->err, LPL_NOWHERE);
}

/* ---- methods ---- */

static lpl_writer *check (lua_State *L) {
  lpl_writer *w = luaL_checkudata(L, 1, LPL_WRITER);
  luaL_argcheck(L, w->ready, 1, "writer has no sink");
  return w;
}

/* ctx: where to go on: the argument (low 8 bits; FLUSHING: behind the last), whether to flush then, and how many bytes
   of it are gone (the rest). */
enum { FLUSHING = 255, FLUSH = 256, FROM_BITS = 9 };

static lua_KContext context (int arg, int flush, size_t from) {
  return (lua_KContext)((uintptr_t)from << FROM_BITS | (uintptr_t)(unsigned)(flush | arg));
}

static int write_k (lua_State *L, int status, lua_KContext ctx) {
  lpl_writer *w = lua_touserdata(L, 1);
  int top = status == LUA_YIELD ? lua_gettop(L) - LPL_WAIT_RESULTS : lua_gettop(L);
  int arg = (int)(ctx & 255), flush = (int)(ctx & FLUSH);
  size_t from = (size_t)((uintptr_t)ctx >> FROM_BITS), n, taken;
  pl_got got;
  if (status == LUA_YIELD) lpl_writer_wait_end(L, 1);
  for (;;) {
    if (arg > top && arg != FLUSHING) {
      if (!flush) break;
      arg = FLUSHING;
    }
    if (arg == FLUSHING) {
      got = lpl_writer_flush(w);
    } else {
      const char *p = lua_tolstring(L, arg, &n);
      got = lpl_writer_put(w, p + from, n - from, &taken);
      from += taken;
    }
    if (got == PL_FAIL) return lpl_writer_fail(L, w);
    if (got == PL_END && arg == FLUSHING) break;
    if (got == PL_END) {
      arg++;
      from = 0;
      continue;
    }
    lua_callk(L, lpl_writer_wait_begin(L, 1), LPL_WAIT_RESULTS, context(arg, flush, from), write_k);
    lpl_writer_wait_end(L, 1);
  }
  lua_settop(L, 1);
  return 1;
}

static int check_strings (lua_State *L) {
  check(L);
  int n = lua_gettop(L);
  luaL_argcheck(L, n < 200, 200, "too many arguments");
  for (int i = 2; i <= n; i++) luaL_checkstring(L, i);
  luaL_checkstack(L, 16, NULL);
  return n;
}

/* w:write(s, ...): the Writer, or nil, message, code. May yield. */
static int writer_write (lua_State *L) {
  check_strings(L);
  return write_k(L, LUA_OK, context(2, 0, 0));
}

/* Copies the strings from 2 to n, if there is room for them all; 0 if not. */
static size_t join (lua_State *L, int n, char *to, size_t room) {
  size_t all = 0, len;
  for (int i = 2; i <= n; i++) {
    const char *p = lua_tolstring(L, i, &len);
    if (len > room - all) return 0;
    memcpy(to + all, p, len);
    all += len;
  }
  return all;
}

/* w:send(s, ...): write and flush. What is little leaves in one call, without being kept in between. */
static int writer_send (lua_State *L) {
  lpl_writer *w = luaL_checkudata(L, 1, LPL_WRITER);
  int n = check_strings(L), arg = 2;
  char little[LITTLE];
  bool direct = lpl_writer_free(w);
  size_t all = direct ? join(L, n, little, sizeof little) : 0, gone = 0;
  if (all > 0) {
    pl_got got = PL_END;
    gone = account(w, send(w->fd, little, all, MSG_DONTWAIT | MSG_NOSIGNAL), &got);
    if (got == PL_FAIL) return lpl_writer_fail(L, w);
    if (gone == all) {
      lua_settop(L, 1);
      return 1;
    }
  }
  while (arg <= n && gone >= lua_rawlen(L, arg)) gone -= lua_rawlen(L, arg++);
  return write_k(L, LUA_OK, context(arg, FLUSH, gone));
}

/* w:flush(): returns when all is handed to the system. May yield. */
static int writer_flush (lua_State *L) {
  check(L);
  lua_settop(L, 1);
  return write_k(L, LUA_OK, context(FLUSHING, FLUSH, 0));
}

/* w:close(): drops what was not flushed; the socket is its owner's. */
static int writer_close (lua_State *L) {
  lpl_writer *w = luaL_checkudata(L, 1, LPL_WRITER);
  if (w->ready) pl_buf_free(&w->q);
  w->closed = true;
  lua_pushboolean(L, 1);
  return 1;
}

/* w:status(): bytes sent, bytes waiting, code of its failure or nil */
static int writer_status (lua_State *L) {
  lpl_writer *w = check(L);
  lua_pushinteger(L, (lua_Integer)w->sent);
  lua_pushinteger(L, (lua_Integer)pl_buf_len(&w->q));
  if (w->err || w->closed) lua_pushstring(L, pl_err_code(w->err ? w->err : PL_E_CLOSED));
  else lua_pushnil(L);
  return 3;
}

/* w:discard(): drops what was not sent, for another message in its place */
static int writer_discard (lua_State *L) {
  lpl_writer *w = check(L);
  pl_buf_free(&w->q);
  lua_settop(L, 1);
  return 1;
}

static int writer_tostring (lua_State *L) {
  lpl_writer *w = luaL_checkudata(L, 1, LPL_WRITER);
  lua_pushfstring(L, "writer (%s): %p", w->closed ? "closed" : w->err ? pl_err_code(w->err) : "open", (void *)w);
  return 1;
}

static lpl_writer *new_writer (lua_State *L) {
  lpl_writer *w = lpl_newuserdata(L, sizeof *w, LPL_WRITER_UV_COUNT);
  memset(w, 0, sizeof *w);
  void *ud;
  pl_alloc alloc = lua_getallocf(L, &ud);
  pl_buf_init(&w->q, alloc, ud, 0);
  w->keep = KEEP;
  luaL_setmetatable(L, LPL_WRITER);
  return w;
}

/* Gives the Writer on the top its descriptor; sock and wait at these indices. */
static void over_socket (lua_State *L, lpl_writer *w, int sock, int fd, int wait) {
  const int *live = lua_touserdata(L, sock);
  if (live && (lua_rawlen(L, sock) < sizeof *live || *live != fd)) live = NULL;
  w->fd = fd;
  w->live = live;
  lua_pushvalue(L, sock);
  lpl_setuv(L, -2, LPL_UV_SOCK);
  lua_pushvalue(L, wait);
  lpl_setuv(L, -2, LPL_UV_SEND);
  w->ready = true;
}

/* (sock, fd, wait [, timeout]) */
static int new_socket (lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  double timeout = luaL_optnumber(L, 4, 0);
  lpl_writer *w = new_writer(L);
  w->timeout = timeout;
  over_socket(L, w, 1, fd, 3);
  return 1;
}

/* (f): f(bytes) sends them all: true, or nil, message, code. May yield. */
static int new_function (lua_State *L) {
  luaL_checkany(L, 1);
  lpl_writer *w = new_writer(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_SEND);
  w->through_call = w->ready = true;
  return 1;
}

bool lpl_writer_for_socket (lua_State *L, int idx) {
  static const char *const plain[] = {"tcp{client}", "tcp{master}", "unix{client}", "unix{master}",
                                      "unixstream{client}", "unixstream{master}"};
  idx = lua_absindex(L, idx);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    const int *fd = luaL_testudata(L, idx, plain[i]); /* LuaSocket: the descriptor is the first word */
    if (fd == NULL) continue;
    if (lua_getfield(L, LUA_REGISTRYINDEX, WAIT_KEY) != LUA_TFUNCTION) {
      lua_pop(L, 1);
      return false;
    }
    int wait = lua_gettop(L);
    over_socket(L, new_writer(L), idx, *fd, wait);
    lua_remove(L, -2);
    return true;
  }
  return false;
}

/* (f): how to wait for a plain LuaSocket object that nobody wrapped */
static int set_wait (lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, WAIT_KEY);
  return 0;
}

static int is_writer (lua_State *L) {
  lua_pushboolean(L, luaL_testudata(L, 1, LPL_WRITER) != NULL);
  return 1;
}

int lpl_open_writer (lua_State *L) {
  static const luaL_Reg methods[] = {
      {"write", writer_write}, {"flush", writer_flush}, {"close", writer_close}, {"status", writer_status},
      {"send", writer_send},   {"discard", writer_discard}, {NULL, NULL},
  };
  static const luaL_Reg meta[] = {
      {"__gc", writer_close}, {"__close", writer_close}, {"__tostring", writer_tostring}, {NULL, NULL},
  };
  static const luaL_Reg functions[] = {
      {"socket", new_socket}, {"function", new_function}, {"set_wait", set_wait}, {"is", is_writer}, {NULL, NULL},
  };
  luaL_newmetatable(L, LPL_WRITER);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
