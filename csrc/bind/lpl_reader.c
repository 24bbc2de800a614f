/* The Reader class: constructors and the reading methods. Each method that may wait is an operation that answers
   LPL_WAIT as long as bytes lack; drive_k calls the source through lua_callk and is its own continuation. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lpl.h"
#include "lpl_copy.h"
#include "lpl_message.h"
#include "lpl_source.h"
#include "pl_scan.h"

enum {
  PEEK_MAX = 64 * 1024,  /* most that peek keeps at hand */
  PIECE_MAX = 64 * 1024, /* most that read_some and source() give at once */
  TRAILER_FIELDS = 100,
  TRAILER_BYTES = 16 * 1024,
  HEIGHT_MAX = 100, /* of Readers over each other */
  SIZE_LINE = 4 * 1024,
  EXTENSIONS = 16 * 1024
};

/* ---- life ---- */

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

lpl_reader *lpl_checkreader (lua_State *L, int idx) { return luaL_checkudata(L, idx, LPL_READER); }

/* As io's own close does for a plain file: the handle counts as closed from then on. */
static void close_file (luaL_Stream *f) {
  if (f->closef == NULL) return;
  f->closef = NULL;
  fclose(f->f);
}

/* Whoever waits for the end of the bytes is told once, whether all were read. */
static void tell_done (lua_State *L, lpl_reader *r, bool ended) {
  r->done = false;
  lpl_getuv(L, 1, LPL_UV_DONE);
  lua_pushboolean(L, ended);
  lua_callk(L, 1, 0, 0, NULL);
}

static int reader_close (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  if (r->src == &lpl_from_file && !r->closed && r->u.file.own) close_file(r->u.file.stream);
  if (r->src == &lpl_from_chunked) {
    pl_buf_free(&r->u.chunked.trailer);
    r->u.chunked.head.nfields = 0;
  }
  bool ended = r->ended && pl_buf_len(&r->q) == 0;
  pl_buf_free(&r->q);
  r->closed = true;
  r->closes++;
  if (r->done) tell_done(L, r, ended);
  lua_pushboolean(L, 1);
  return 1;
}

static int reader_gc (lua_State *L) {
  lpl_checkreader(L, 1)->finalised = true;
  return reader_close(L);
}

static int reader_tostring (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  const char *state = r->closed ? "closed" : r->err ? pl_err_code(r->err) : r->ended ? "ended" : "open";
  lua_pushfstring(L, "reader (%s, %s): %p", r->src ? r->src->name : "none", state, (void *)r);
  return 1;
}

/* ---- failures ---- */

/* A timeout is told once: the next read may try again. */
static void forget_timeout (lpl_reader *r) {
  for (; r; r = r->up) {
    if (r->err != PL_E_TIMEOUT) continue;
    r->err = PL_OK;
    r->late = true;
  }
}

static int source_message (lua_State *L, int idx) {
  lua_pushvalue(L, idx);
  for (lpl_reader *r = lua_touserdata(L, -1); r->up != NULL; r = r->up) {
    lpl_getuv(L, -1, LPL_UV_UP);
    if (lua_touserdata(L, -1) != r->up) {
      lpl_getuv(L, -1, LPL_UV_UP);
      lua_remove(L, -2);
    }
    lua_remove(L, -2);
  }
  lua_pushnil(L);
  lpl_getuv(L, -2, LPL_UV_MESSAGE);
  lpl_getuv(L, -3, LPL_UV_CODE);
  return 3;
}

int lpl_reader_fail (lua_State *L, int idx) {
  lpl_reader *r = lua_touserdata(L, idx);
  pl_err e = r->closed ? PL_E_CLOSED : r->err;
  if (e == PL_E_SOURCE) return source_message(L, idx);
  if (e == PL_E_READ_FAILED) return lpl_fail_errno(L, e, r->os_error);
  if (e == PL_E_TIMEOUT) forget_timeout(r);
  return lpl_fail(L, e, e == PL_E_CLOSED ? LPL_NOWHERE : r->err_at);
}

static int over_limit (lua_State *L, lpl_reader *r) {
  pl_buf_free(&r->q);
  r->err = PL_E_BODY_TOO_LARGE;
  r->err_at = r->given + r->max_all;
  return lpl_reader_fail(L, 1);
}

/* ---- operations: the Reader at 1, answers pushed; the number of answers, or LPL_WAIT ---- */

/* Pushes n bytes of what is ahead and uses them. */
static int give (lua_State *L, lpl_reader *r, pl_slice s, size_t n) {
  uint64_t mark = lpl_mark(r);
  lua_pushlstring(L, s.p, n);
  lpl_use(L, r, n, mark);
  return 1;
}

static int give_nil (lua_State *L) {
  lua_pushnil(L);
  return 1;
}

/* Up to n bytes in one piece: PL_DATA with s.n >= n, or PL_END with fewer (s may be empty), PL_MORE, PL_FAIL. */
static pl_got gather (lpl_reader *r, size_t n, pl_slice *s) {
  pl_got got = lpl_view(r, s);
  if (got == PL_END) s->n = 0;
  while (got == PL_DATA && s->n < n) {
    got = lpl_extend(r, n - s->n);
    if (got == PL_DATA || got == PL_END) {
      pl_slice all = pl_buf_peek(&r->q);
      if (all.n > 0) *s = all;
    }
  }
  return got;
}

static int read_bytes (lua_State *L, lpl_reader *r, size_t n) {
  pl_slice s;
  pl_got got = gather(r, n > 0 ? n : 1, &s);
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, 1);
  return s.n > 0 ? give(L, r, s, s.n < n ? s.n : n) : give_nil(L);
}

static int read_all (lua_State *L, lpl_reader *r) {
  pl_slice s = {"", 0};
  int64_t left = lpl_length(r);
  if (r->max_all && left > 0 && (uint64_t)left > r->max_all) return over_limit(L, r);
  if (r->src == &lpl_from_string && pl_buf_len(&r->q) == 0 && lpl_view(r, &s) == PL_DATA) return give(L, r, s, s.n);
  size_t most = r->max_all ? (size_t)r->max_all + 1 : SIZE_MAX;
  pl_got got = gather(r, most, &s);
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, 1);
  return got == PL_DATA ? over_limit(L, r) : give(L, r, s, s.n);
}

static int give_line (lua_State *L, lpl_reader *r, pl_slice s, size_t n, bool keep) {
  uint64_t mark = lpl_mark(r);
  lua_pushlstring(L, s.p, n - (keep || s.p[n - 1] != '\n' ? 0 : 1));
  lpl_use(L, r, n, mark);
  return 1;
}

static int read_line (lua_State *L, lpl_reader *r, bool keep) {
  pl_slice s = {"", 0};
  pl_got got = lpl_view(r, &s);
  while (got == PL_DATA) {
    bool queued = pl_buf_len(&r->q) > 0;
    size_t n = queued ? pl_buf_line(&r->q) : pl_scan_byte(s.p, s.n, '\n') + 1;
    if (queued) s = pl_buf_peek(&r->q);
    if (n > 0 && n <= s.n) return give_line(L, r, s, n, keep);
    if (r->max_all && s.n > r->max_all) return over_limit(L, r);
    got = lpl_extend(r, 0);
  }
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, 1);
  if (pl_buf_len(&r->q) > 0) s = pl_buf_peek(&r->q);
  else s.n = 0;
  return s.n > 0 ? give_line(L, r, s, s.n, keep) : give_nil(L);
}

/* One format of read; checked already. */
static int read_format (lua_State *L, lpl_reader *r, int format) {
  if (lua_type(L, format) == LUA_TNUMBER) return read_bytes(L, r, (size_t)lua_tointeger(L, format));
  const char *f = lua_tostring(L, format);
  switch (*f == '*' ? f[1] : f[0]) {
  case 'a': return read_all(L, r);
  case 'L': return read_line(L, r, true);
  default: return read_line(L, r, false);
  }
}

/* extra: number of formats, at 2 and up; answers gather behind them. */
static int op_read (lua_State *L, lpl_reader *r, int extra) {
  for (;;) {
    int done = lua_gettop(L) - 1 - extra;
    if (done == extra) return done;
    int n = read_format(L, r, 2 + done);
    if (n != 1) return n;
    if (lua_isnil(L, -1)) return done + 1;
  }
}

static int op_read_some (lua_State *L, lpl_reader *r, int extra) {
  pl_slice s;
  size_t max = (size_t)lua_tointeger(L, 2);
  (void)extra;
  switch (lpl_view(r, &s)) {
  case PL_MORE: return LPL_WAIT;
  case PL_FAIL: return lpl_reader_fail(L, 1);
  case PL_END: return give_nil(L);
  default: return give(L, r, s, s.n < max ? s.n : max);
  }
}

static int op_peek (lua_State *L, lpl_reader *r, int extra) {
  pl_slice s;
  size_t n = (size_t)lua_tointeger(L, 2);
  (void)extra;
  pl_got got = gather(r, n > 0 ? n : 1, &s);
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, 1);
  if (s.n == 0) return give_nil(L);
  lua_pushlstring(L, s.p, s.n < n ? s.n : n);
  return 1;
}

/* 2: how many at most; 3: how many so far */
static int op_skip (lua_State *L, lpl_reader *r, int extra) {
  uint64_t most = (uint64_t)lua_tointeger(L, 2), done = (uint64_t)lua_tointeger(L, 3);
  pl_slice s;
  pl_got got = PL_DATA;
  (void)extra;
  while (done < most && (got = lpl_view(r, &s)) == PL_DATA) {
    size_t n = s.n < most - done ? s.n : (size_t)(most - done);
    lpl_skip(r, n);
    done += n;
  }
  lua_pushinteger(L, (lua_Integer)done);
  if (got == PL_FAIL) return lpl_reader_fail(L, 1);
  if (got != PL_MORE) return 1;
  lua_replace(L, 3);
  return LPL_WAIT;
}

enum { READ, READ_SOME, PEEK, SKIP };

static int (*const ops[]) (lua_State *, lpl_reader *, int) = {op_read, op_read_some, op_peek, op_skip};

/* ctx: operation, whether we come back from a wait, and a small number the operation needs */
#define CTX(op, back, extra) ((lua_KContext)(op) | (lua_KContext)(back) << 4 | (lua_KContext)(extra) << 5)

static int drive_k (lua_State *L, int status, lua_KContext ctx) {
  int op = (int)(ctx & 15), extra = (int)(ctx >> 5);
  (void)status;
  if (ctx & 16) lpl_wait_end(L, 1);
  for (;;) {
    int n = ops[op](L, lua_touserdata(L, 1), extra);
    if (n != LPL_WAIT) return n;
    lua_callk(L, lpl_wait_begin(L, 1), LPL_WAIT_RESULTS, CTX(op, 1, extra), drive_k);
    lpl_wait_end(L, 1);
  }
}

/* A body that has parts belongs to whichever of the two is touched first. */
static bool claimed (lpl_reader *r) {
  if (r->claim == LPL_PARTS) return false;
  r->claim = LPL_DIRECT;
  return true;
}

static int drive (lua_State *L, int op, int extra) {
  if (!claimed(lpl_checkreader(L, 1))) return lpl_fail(L, PL_E_BODY_IN_USE, LPL_NOWHERE);
  return drive_k(L, LUA_OK, CTX(op, 0, extra));
}

/* ---- methods ---- */

static void check_format (lua_State *L, int i) {
  if (lua_type(L, i) == LUA_TNUMBER) {
    luaL_argcheck(L, luaL_checkinteger(L, i) >= 0, i, "size must not be negative");
    return;
  }
  const char *f = luaL_checkstring(L, i);
  if (*f == '*') f++;
  luaL_argcheck(L, *f == 'l' || *f == 'L' || *f == 'a', i, "invalid format");
}

static int reader_read (lua_State *L) {
  lpl_checkreader(L, 1);
  int formats = lua_gettop(L) - 1;
  luaL_checkstack(L, formats + 16, "too many formats");
  if (formats == 0) {
    lua_pushliteral(L, "l");
    formats = 1;
  }
  for (int i = 0; i < formats; i++) check_format(L, 2 + i);
  return drive(L, READ, formats);
}

static lua_Integer check_size (lua_State *L, int i, lua_Integer def) {
  lua_Integer n = luaL_optinteger(L, i, def);
  luaL_argcheck(L, n >= 0, i, "size must not be negative");
  return n;
}

/* Leaves the Reader and one number on the stack. */
static void one_number (lua_State *L, lua_Integer n) {
  lua_settop(L, 1);
  lua_pushinteger(L, n);
}

static int reader_read_some (lua_State *L) {
  lua_Integer n = check_size(L, 2, PIECE_MAX);
  luaL_argcheck(L, n > 0, 2, "size must be positive");
  one_number(L, n);
  return drive(L, READ_SOME, 0);
}

static int reader_peek (lua_State *L) {
  lua_Integer n = check_size(L, 2, 1);
  one_number(L, n < PEEK_MAX ? n : PEEK_MAX);
  return drive(L, PEEK, 0);
}

static int reader_skip (lua_State *L) {
  one_number(L, check_size(L, 2, LUA_MAXINTEGER));
  lua_pushinteger(L, 0);
  return drive(L, SKIP, 0);
}

static int reader_copy (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  luaL_checkany(L, 2);
  lua_Integer n = check_size(L, 3, LUA_MAXINTEGER);
  lua_settop(L, 2);
  return claimed(r) ? lpl_copy(L, n) : lpl_fail(L, PL_E_BODY_IN_USE, LPL_NOWHERE);
}

static int reader_save (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  return claimed(r) ? lpl_save(L) : lpl_fail(L, PL_E_BODY_IN_USE, LPL_NOWHERE);
}

/* ---- iterators: closures over the Reader (and a format); failures are raised ---- */

static int raise_failure (lua_State *L, int n) {
  return n == 3 && lua_isnil(L, -3) ? lpl_raise(L) : n;
}

static int lines_k (lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  if (ctx) lpl_wait_end(L, 1);
  for (;;) {
    int n = op_read(L, lua_touserdata(L, 1), 1);
    if (n != LPL_WAIT) return raise_failure(L, n);
    lua_callk(L, lpl_wait_begin(L, 1), LPL_WAIT_RESULTS, 1, lines_k);
    lpl_wait_end(L, 1);
  }
}

static int lines_next (lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  if (!claimed(lua_touserdata(L, 1))) return raise_failure(L, lpl_fail(L, PL_E_BODY_IN_USE, LPL_NOWHERE));
  return lines_k(L, LUA_OK, 0);
}

static int reader_lines (lua_State *L) {
  lpl_checkreader(L, 1);
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    lua_pushliteral(L, "l");
  }
  lua_settop(L, 2);
  check_format(L, 2);
  lua_pushcclosure(L, lines_next, 2);
  return 1;
}

static int source_next (lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushinteger(L, PIECE_MAX);
  return drive(L, READ_SOME, 0);
}

static int reader_source (lua_State *L) {
  lpl_checkreader(L, 1);
  lua_settop(L, 1);
  lua_pushcclosure(L, source_next, 1);
  return 1;
}

/* ---- what does not wait ---- */

static int reader_length (lua_State *L) {
  int64_t n = lpl_length(lpl_checkreader(L, 1));
  if (n < 0) lua_pushnil(L);
  else lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int reader_trailers (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  if (r->src != &lpl_from_chunked || r->closed || !r->ended) {
    lua_pushnil(L);
    return 1;
  }
  pl_head *h = &r->u.chunked.head;
  uint32_t kept = 0;
  pl_slice bytes = pl_buf_peek(&r->u.chunked.trailer);
  lua_pushlstring(L, bytes.p, bytes.n);
  const char *base = lua_tostring(L, -1);
  for (uint32_t i = 0; i < h->nfields; i++)
    if (pl_trailer_allowed(pl_name(&h->field[i], base))) h->field[kept++] = h->field[i];
  h->nfields = kept;
  lpl_push_headers(L, h, base);
  return 1;
}

/* r:limits(t): sets timeout (seconds without progress), deadline (loop.now()), max_all (bytes of read "a" or a line) */
static int reader_limits (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (r->src == &lpl_from_socket) {
    if (lua_getfield(L, 2, "timeout") != LUA_TNIL) r->u.sock.timeout = luaL_checknumber(L, -1);
    if (lua_getfield(L, 2, "deadline") != LUA_TNIL) r->u.sock.deadline = luaL_checknumber(L, -1);
  }
  if (lua_getfield(L, 2, "max_all") != LUA_TNIL) r->max_all = (uint64_t)luaL_checkinteger(L, -1);
  lua_settop(L, 1);
  return 1;
}

/* r:patience(timeout, deadline, then): as limits, without a table; nil: none. Only sockets wait here. then: when the
   next bytes have come, so many seconds are left in all, and no timeout holds. */
static int reader_patience (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  double timeout = luaL_optnumber(L, 2, 0), deadline = luaL_optnumber(L, 3, 0), then = luaL_optnumber(L, 4, 0);
  if (r->src == &lpl_from_socket) {
    r->u.sock.timeout = timeout;
    r->u.sock.deadline = deadline;
    r->u.sock.then = then;
  }
  return 0;
}

/* r:expecting(): does somebody wait, under patience's then, for bytes of which none has come? */
static int reader_expecting (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  lua_pushboolean(L, r->src == &lpl_from_socket && r->u.sock.waiting && r->u.sock.then > 0);
  return 1;
}

/* r:preload(s): bytes that somebody has read ahead, given out before all others; for a Reader nobody has read from */
static int reader_preload (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  size_t n;
  const char *p = luaL_checklstring(L, 2, &n);
  luaL_argcheck(L, r->src && r->src->fill && !r->closed, 1, "reader of a socket or a file expected");
  luaL_argcheck(L, r->given == 0 && pl_buf_len(&r->q) == 0, 1, "reader has been read from");
  if (!pl_buf_append(&r->q, p, n)) return luaL_error(L, "not enough memory");
  lua_settop(L, 1);
  return 1;
}

/* r:on_wait(f | nil): f is called once before the first wait from now on; true, or nil, message, code as from a wait.
   For the bottom Reader of a stack. */
static int reader_on_wait (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  lua_settop(L, 2);
  r->hook = !lua_isnil(L, 2);
  lpl_setuv(L, 1, LPL_UV_HOOK);
  return 1;
}

/* r:status(): "open" | "ended" | "failed" | "closed", bytes given out, code of its failure (a timeout is remembered here)
   or nil */
static int reader_status (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  bool ended = r->ended && pl_buf_len(&r->q) == 0;
  lua_pushstring(L, r->closed ? "closed" : r->err ? "failed" : ended ? "ended" : "open");
  lua_pushinteger(L, (lua_Integer)r->given);
  if (r->err || r->late) lua_pushstring(L, pl_err_code(r->err ? r->err : PL_E_TIMEOUT));
  else lua_pushnil(L);
  return 3;
}

/* r:on_close(f | nil): f(ended) is called once, when the Reader is closed or collected; ended: all was read. It must
   not yield. */
static int reader_on_close (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  lua_settop(L, 2);
  r->done = !lua_isnil(L, 2);
  lpl_setuv(L, 1, LPL_UV_DONE);
  lua_settop(L, 1);
  return 1;
}

/* r:at_hand(): bytes taken from the source and not given out yet */
static int reader_at_hand (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  size_t n = r->src && !r->closed ? pl_buf_len(&r->q) : 0;
  if (r->src == &lpl_from_function && !r->closed) n += r->u.fn.n;
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

/* r:release(): for those who take the bytes of a claimed body over: whoever had it loses it. A body that was closed can
   be read again by them, as long as the close threw nothing away that they need. */
static int reader_release (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  r->claim = LPL_FREE;
  if (r->closed && !r->finalised && (r->ended || r->src == &lpl_from_limit)) {
    r->closed = false;
    if (r->err == PL_E_CLOSED) r->err = PL_OK;
  }
  lua_settop(L, 1);
  return 1;
}

/* r:idle(): a connection between two messages holds no memory that the last one needed. How many bytes are at hand. */
static int reader_idle (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  size_t n = pl_buf_len(&r->q);
  if (n == 0) pl_buf_free(&r->q);
  if (r->src == &lpl_from_socket) lpl_socket_init(r, r->u.sock.fd, r->u.sock.live);
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

/* ---- constructors ---- */

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

static void new_class (lua_State *L) {
  static const luaL_Reg methods[] = {
      {"read", reader_read},         {"read_some", reader_read_some}, {"lines", reader_lines},
      {"peek", reader_peek},         {"copy", reader_copy},           {"save", reader_save},
      {"skip", reader_skip},         {"length", reader_length},       {"trailers", reader_trailers},
      {"source", reader_source},     {"close", reader_close},         {"limits", reader_limits},
      {"on_wait", reader_on_wait},   {"status", reader_status},       {"idle", reader_idle},
      {"release", reader_release},   {"patience", reader_patience},   {"preload", reader_preload},
      {"on_close", reader_on_close}, {"at_hand", reader_at_hand},     {"expecting", reader_expecting},
      {NULL, NULL},
  };
  static const luaL_Reg meta[] = {
      {"__gc", reader_gc},             {"__close", reader_close}, {"__len", reader_length},
      {"__tostring", reader_tostring}, {NULL, NULL},
  };
  luaL_newmetatable(L, LPL_READER);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

int lpl_open_reader (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"string", new_string}, {"function", new_function}, {"file", new_file}, {"socket", new_socket},
      {"limit", new_limit},   {"chunked", new_chunked},   {"is", is_reader},  {NULL, NULL},
  };
  new_class(L);
  lpl_copy_open(L);
  luaL_newlib(L, functions);
  return 1;
}
