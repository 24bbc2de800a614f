/* The Reader's constructors, one for each kind of source. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fileno */
#endif
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lpl_reader.h"
#include "lpl_source.h"

enum {
  TRAILER_FIELDS = 100,
  TRAILER_BYTES = 16 * 1024,
  HEIGHT_MAX = 100, /* of Readers over each other */
  SIZE_LINE = 4 * 1024,
  EXTENSIONS = 16 * 1024
};

static void init_buf (lua_State *L, pl_buf *b) {
  void *ud;
  pl_alloc alloc = lua_getallocf(L, &ud);
  pl_buf_init(b, alloc, ud, 0);
}

/* extra: room behind it */
static lpl_reader *new_reader (lua_State *L, size_t extra) {
  lpl_reader *r = lpl_newuserdata(L, sizeof *r + extra, LPL_UV_COUNT);
  memset(r, 0, sizeof *r);
  init_buf(L, &r->q);
  luaL_setmetatable(L, LPL_READER);
  return r;
}

lpl_reader *lpl_newreader (lua_State *L) { return new_reader(L, 0); }

void lpl_put_over (lua_State *L, lpl_reader *r, lpl_reader *up) {
  if (up->height >= HEIGHT_MAX) luaL_error(L, "more than %d readers over each other", HEIGHT_MAX);
  r->height = (uint8_t)(up->height + 1);
  r->up = up;
}

static int new_string (lua_State *L) {
  size_t n;
  const char *p = luaL_checklstring(L, 1, &n);
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_UP);
  r->u.mem.p = p;
  r->u.mem.n = n;
  r->src = &lpl_from_string;
  return 1;
}

/* (f, hint): hint, whether f is told how many bytes are wanted */
static int new_function (lua_State *L) {
  luaL_checkany(L, 1);
  bool callable = lua_isfunction(L, 1) || luaL_getmetafield(L, 1, "__call") != LUA_TNIL;
  luaL_argcheck(L, callable, 1, "function expected");
  bool hint = lua_toboolean(L, 2);
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_CALL);
  r->u.fn.p = "";
  r->u.fn.hint = hint;
  r->src = &lpl_from_function;
  return 1;
}

/* A pipe, a socket or a terminal; other files and devices give what they have at once. */
static bool may_wait (int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd));
}

/* (handle, n, own): n bytes from where the file stands, -1: to its end; own: close closes the handle too */
static int new_file (lua_State *L) {
  luaL_Stream *f = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  luaL_argcheck(L, f->closef != NULL, 1, "file is closed");
  lua_Integer n = luaL_optinteger(L, 2, -1);
  bool own = lua_toboolean(L, 3) && f->f != stdin && f->f != stdout && f->f != stderr;
  bool live = may_wait(fileno(f->f)); /* now: a finaliser may close it when memory is asked for */
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_UP);
  r->u.file.stream = f;
  r->u.file.left = n;
  r->u.file.own = own;
  r->u.file.live = live;
  r->src = &lpl_from_file;
  return 1;
}

/* (sock, fd, wait [, timeout]): sock, the object that owns the descriptor; wait(fd, "r", deadline) */
static int new_socket (lua_State *L) {
  const int *live = lua_touserdata(L, 1);
  int fd = (int)luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  double timeout = luaL_optnumber(L, 4, 0);
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_UP);
  lua_pushvalue(L, 3);
  lpl_setuv(L, -2, LPL_UV_CALL);
  if (live && lua_rawlen(L, 1) < sizeof *live) live = NULL;
  if (live && *live != fd) live = NULL; /* laid out otherwise: no help */
  lpl_socket_init(r, fd, live);
  r->u.sock.timeout = timeout;
  r->src = &lpl_from_socket;
  return 1;
}

/* (reader, n, exact): exact, whether fewer than n bytes are an error */
static int new_limit (lua_State *L) {
  lpl_reader *up = lpl_checkreader(L, 1);
  lua_Integer n = luaL_checkinteger(L, 2);
  bool exact = lua_toboolean(L, 3);
  luaL_argcheck(L, n >= 0, 2, "size must not be negative");
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, LPL_UV_UP);
  lpl_put_over(L, r, up);
  r->u.limit.left = (uint64_t)n;
  r->u.limit.exact = exact;
  r->src = &lpl_from_limit;
  return 1;
}

lpl_reader *lpl_push_chunked (lua_State *L, int idx, bool lenient) {
  lpl_reader *up = lpl_checkreader(L, idx);
  idx = lua_absindex(L, idx);
  lpl_reader *r = new_reader(L, sizeof(pl_field) * TRAILER_FIELDS);
  lua_pushvalue(L, idx);
  lpl_setuv(L, -2, LPL_UV_UP);
  pl_head_limits head = {TRAILER_BYTES, TRAILER_FIELDS, 0};
  pl_chunk_limits line = {SIZE_LINE, EXTENSIONS};
  lpl_put_over(L, r, up);
  init_buf(L, &r->u.chunked.trailer);
  pl_head_init(&r->u.chunked.head, PL_TRAILER, head, (pl_field *)(r + 1));
  pl_chunk_init(&r->u.chunked.c, line, lenient, &r->u.chunked.head);
  r->src = &lpl_from_chunked;
  return r;
}

/* (reader [, limits]): limits.lenient, limits.chunk_line, limits.chunk_ext, limits.trailer in bytes */
static int new_chunked (lua_State *L) {
  lpl_checkreader(L, 1);
  lua_settop(L, 2);
  bool lenient = false;
  if (!lua_isnil(L, 2)) {
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "lenient");
    lenient = lua_toboolean(L, -1);
  }
  uint32_t line = lpl_limit(L, 2, "chunk_line", SIZE_LINE);
  uint32_t ext = lpl_limit(L, 2, "chunk_ext", EXTENSIONS);
  uint32_t trailer = lpl_limit(L, 2, "trailer", TRAILER_BYTES);
  lpl_reader *r = lpl_push_chunked(L, 1, lenient);
  r->u.chunked.c.max = (pl_chunk_limits){line, ext};
  r->u.chunked.head.max.bytes = trailer;
  return 1;
}

static int is_reader (lua_State *L) {
  lua_pushboolean(L, luaL_testudata(L, 1, LPL_READER) != NULL);
  return 1;
}

void lpl_set_readers (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"string", new_string}, {"function", new_function}, {"file", new_file}, {"socket", new_socket},
      {"limit", new_limit},   {"chunked", new_chunked},   {"is", is_reader},  {NULL, NULL},
  };
  luaL_setfuncs(L, functions, 0);
}
