/* The Reader's methods that read. Each that may wait is an operation that answers LPL_WAIT as long as bytes lack;
   drive_k calls the source through lua_callk and is its own continuation. */
#include "lpl_copy.h"
#include "lpl_reader.h"
#include "lpl_source.h"
#include "pl_scan.h"

enum {
  PEEK_MAX = 64 * 1024, /* most that peek keeps at hand */
  PIECE_MAX = 64 * 1024 /* most that read_some and source() give at once */
};

/* ---- operations: the Reader at 1, answers pushed; the number of answers, or LPL_WAIT ---- */

static int over_limit (lua_State *L, lpl_reader *r) {
  pl_buf_free(&r->q);
  r->err = PL_E_BODY_TOO_LARGE;
  r->err_at = r->given + r->max_all;
  return lpl_reader_fail(L, 1);
}

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

/* extra: number of formats, at 2 and up; answers gather behind them, a failure behind those that went before. */
static int op_read (lua_State *L, lpl_reader *r, int extra) {
  for (;;) {
    int done = lua_gettop(L) - 1 - extra;
    if (done == extra) return done;
    int n = read_format(L, r, 2 + done);
    if (n == LPL_WAIT) return n;
    if (n != 1) return done + n;
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

void lpl_set_reads (lua_State *L) {
  static const luaL_Reg methods[] = {
      {"read", reader_read}, {"read_some", reader_read_some}, {"lines", reader_lines},
      {"peek", reader_peek}, {"skip", reader_skip},           {"source", reader_source},
      {"copy", reader_copy}, {"save", reader_save},           {NULL, NULL},
  };
  luaL_setfuncs(L, methods, 0);
}
