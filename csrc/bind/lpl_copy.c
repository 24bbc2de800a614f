/* Reader:copy and Reader:save: bytes go from where they lie to a file, a Writer or a socket without becoming Lua
   strings; functions and objects get strings. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lpl_copy.h"
#include "lpl_source.h"
#include "lpl_writer.h"

#define SAVED "partline.saved"

/* A file being written under a name of its own, which becomes the wanted one when it is whole. */
typedef struct saved {
  int fd;      /* -1: over */
  bool renames; /* name and path follow: the first is renamed to the second */
  char *name, *path;
} saved;

/* The stack of a copy. */
enum { READER = 1, SINK, LEFT, MOVED, METHOD, SLOTS = METHOD };

/* File systems take whole stretches of pages at half the price of ragged ones: a read ends where a stretch of the saved
   file does. */
enum { STRETCH = 64 * 1024 };

/* Why a copy waits; also the context of its continuation. */
enum { START, READ_WAIT, SINK_CALL, WRITER_WAIT };

/* ---- files being saved ---- */

static void abandon (saved *s) {
  if (s->fd < 0) return;
  close(s->fd);
  s->fd = -1;
  if (s->renames) unlink(s->name);
}

static int saved_gc (lua_State *L) {
  abandon(luaL_checkudata(L, 1, SAVED));
  return 0;
}

/* The last step: 0, or the number of answers. */
static int complete (lua_State *L, saved *s) {
  int fd = s->fd;
  s->fd = -1;
  bool ok = close(fd) == 0 && (!s->renames || rename(s->name, s->path) == 0);
  int e = errno;
  if (ok) return 0;
  if (s->renames) unlink(s->name);
  return lpl_fail_errno(L, PL_E_WRITE_FAILED, e);
}

/* Opens a new file beside path, to be renamed when it is whole; what is no regular file (a device, a pipe) is written
   as it is. */
static int open_for (saved *s, const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return open(path, O_WRONLY | O_CLOEXEC);
  for (unsigned i = 0; i < 1000; i++) {
    snprintf(s->name, strlen(path) + 32, "%s.%ld-%u.part", path, (long)getpid(), i);
    int fd = open(s->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) {
      s->renames = fd >= 0;
      return fd;
    }
  }
  return -1;
}

/* ---- one piece to each kind of sink: PL_DATA taken, PL_MORE wait, PL_FAIL errno; *n: how much was taken ---- */

static pl_got to_descriptor (int fd, const char *p, size_t *n) {
  size_t done = 0;
  while (done < *n) {
    ssize_t k = write(fd, p + done, *n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return PL_FAIL;
    done += (size_t)k;
  }
  return PL_DATA;
}

static pl_got to_stream (luaL_Stream *file, const char *p, size_t *n) {
  errno = EBADF;
  if (file->closef == NULL) return PL_FAIL;
  return fwrite(p, 1, *n, file->f) == *n ? PL_DATA : PL_FAIL;
}

/* ---- the loop ---- */

static void add_moved (lua_State *L, size_t n) {
  lua_pushinteger(L, lua_tointeger(L, LEFT) - (lua_Integer)n);
  lua_replace(L, LEFT);
  lua_pushinteger(L, lua_tointeger(L, MOVED) + (lua_Integer)n);
  lua_replace(L, MOVED);
}

/* Pushes what to call with the piece; returns the number of arguments. */
static int push_call (lua_State *L, pl_slice s) {
  bool method = !lua_isnil(L, METHOD);
  lua_pushvalue(L, method ? METHOD : SINK);
  if (method) lua_pushvalue(L, SINK);
  lua_pushlstring(L, s.p, s.n);
  return method ? 2 : 1;
}

/* A sink's answer: nil or false with a message is a failure. 0, or the number of answers. */
static int sink_answer (lua_State *L) {
  bool bad = !lua_toboolean(L, -3) && !lua_isnil(L, -2);
  if (!bad) {
    lua_pop(L, LPL_WAIT_RESULTS);
    return 0;
  }
  lua_pushnil(L);
  luaL_tolstring(L, -3, NULL);
  if (lua_type(L, -3) == LUA_TSTRING) lua_pushvalue(L, -3);
  else lua_pushstring(L, pl_err_code(PL_E_WRITE_FAILED));
  return 3;
}

static int failed_read (lua_State *L) {
  saved *s = luaL_testudata(L, SINK, SAVED);
  if (s) abandon(s);
  return lpl_reader_fail(L, READER);
}

static int failed_write (lua_State *L) {
  int e = errno;
  saved *s = luaL_testudata(L, SINK, SAVED);
  lpl_writer *w = luaL_testudata(L, SINK, LPL_WRITER);
  if (s) abandon(s);
  return w ? lpl_writer_fail(L, w) : lpl_fail_errno(L, PL_E_WRITE_FAILED, e);
}

/* All is moved: 1 answer, or those of a failure; LPL_WAIT: *why. */
static int finish (lua_State *L, int *why) {
  saved *s = luaL_testudata(L, SINK, SAVED);
  lpl_writer *w = luaL_testudata(L, SINK, LPL_WRITER);
  int failed = s ? complete(L, s) : 0;
  if (failed) return failed;
  if (w && lua_toboolean(L, METHOD)) { /* a Writer made for this copy alone */
    pl_got got = lpl_writer_flush(w);
    *why = WRITER_WAIT;
    if (got == PL_MORE) return LPL_WAIT;
    if (got == PL_FAIL) return failed_write(L);
  }
  lua_pushvalue(L, MOVED);
  return 1;
}

/* Moves what is at hand: the number of answers, or LPL_WAIT and *why; for SINK_CALL the call is on the stack. */
static int move (lua_State *L, lpl_reader *r, int *why, int *nargs) {
  luaL_Stream *file = luaL_testudata(L, SINK, LUA_FILEHANDLE);
  saved *s = luaL_testudata(L, SINK, SAVED);
  lpl_writer *w = luaL_testudata(L, SINK, LPL_WRITER);
  for (;;) {
    lua_Integer left = lua_tointeger(L, LEFT);
    pl_slice ahead;
    pl_got got = left > 0 ? lpl_view(r, &ahead) : PL_END;
    *why = READ_WAIT;
    if (got == PL_END) return finish(L, why);
    if (got == PL_FAIL) return failed_read(L);
    if (got == PL_MORE) return LPL_WAIT;
    size_t n = (lua_Unsigned)left < ahead.n ? (size_t)left : ahead.n;
    uint64_t mark = lpl_mark(r);
    if (file) got = to_stream(file, ahead.p, &n);
    else if (s) got = to_descriptor(s->fd, ahead.p, &n);
    else if (w) got = lpl_writer_put(w, ahead.p, n, &n);
    else *nargs = push_call(L, (pl_slice){ahead.p, n = n < 65536 ? n : 65536});
    if (got == PL_FAIL) return failed_write(L);
    lpl_use(L, r, n, mark);
    add_moved(L, n);
    if (s) lpl_socket_once(r, STRETCH - (size_t)lua_tointeger(L, MOVED) % STRETCH);
    *why = w ? WRITER_WAIT : SINK_CALL;
    if (got == PL_MORE || !(file || s || w)) return LPL_WAIT;
  }
}

static int back (lua_State *L, int why) {
  if (why == READ_WAIT) lpl_wait_end(L, READER);
  if (why == WRITER_WAIT) lpl_writer_wait_end(L, SINK);
  return why == SINK_CALL ? sink_answer(L) : 0;
}

static int copy_k (lua_State *L, int status, lua_KContext ctx) {
  int why = (int)ctx, nargs = 0;
  (void)status;
  for (;;) {
    int n = back(L, why);
    if (n == 0) n = move(L, lua_touserdata(L, READER), &why, &nargs);
    if (n != LPL_WAIT) return n;
    if (why == READ_WAIT) nargs = lpl_wait_begin(L, READER);
    if (why == WRITER_WAIT) nargs = lpl_writer_wait_begin(L, SINK);
    lua_callk(L, nargs, LPL_WAIT_RESULTS, (lua_KContext)why, copy_k);
  }
}

/* Leaves in METHOD what to call on an object, or true beside a Writer that must be flushed, or nil. */
static void find_method (lua_State *L) {
  lua_pushnil(L);
  if (lua_isfunction(L, SINK) || luaL_testudata(L, SINK, LUA_FILEHANDLE) || luaL_testudata(L, SINK, LPL_WRITER)) return;
  if (lpl_writer_for_socket(L, SINK)) {
    lua_replace(L, SINK);
    lua_pushboolean(L, 1);
    lua_replace(L, METHOD);
    return;
  }
  luaL_argcheck(L, lua_istable(L, SINK) || lua_isuserdata(L, SINK), 2, "not a sink");
  if (lua_getfield(L, SINK, "write") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_getfield(L, SINK, "send");
  }
  luaL_argcheck(L, !lua_isnil(L, -1), 2, "sink has neither write nor send");
  lua_replace(L, METHOD);
}

int lpl_copy (lua_State *L, lua_Integer n) {
  luaL_checkstack(L, 24, NULL);
  lua_pushinteger(L, n);
  lua_pushinteger(L, 0);
  find_method(L);
  return copy_k(L, LUA_OK, START);
}

int lpl_save (lua_State *L) {
  size_t n;
  const char *path = lua_tolstring(L, SINK, &n);
  luaL_argcheck(L, strlen(path) == n, 2, "path contains a zero byte");
  saved *s = lpl_newuserdata(L, sizeof *s + 2 * n + 40, 0);
  s->fd = -1;
  s->renames = false;
  s->path = (char *)(s + 1);
  s->name = s->path + n + 1;
  memcpy(s->path, path, n + 1);
  luaL_setmetatable(L, SAVED);
  s->fd = open_for(s, path);
  if (s->fd < 0) return lpl_fail_errno(L, PL_E_WRITE_FAILED, errno);
  lua_replace(L, SINK);
  lua_pushinteger(L, LUA_MAXINTEGER);
  lua_pushinteger(L, 0);
  lua_pushnil(L);
  return copy_k(L, LUA_OK, START);
}

void lpl_copy_open (lua_State *L) {
  luaL_newmetatable(L, SAVED);
  lua_pushcfunction(L, saved_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
