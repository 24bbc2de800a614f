/* The Reader's methods that do not wait: what is known of it, and what is set for the reads to come. */
#include "lpl_message.h"
#include "lpl_reader.h"
#include "lpl_source.h"

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

/* r:status(): "open" | "ended" | "failed" | "closed", bytes given out, code of its failure (a timeout is remembered
   here) or nil */
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

void lpl_set_state (lua_State *L) {
  static const luaL_Reg methods[] = {
      {"length", reader_length},     {"trailers", reader_trailers},   {"limits", reader_limits},
      {"patience", reader_patience}, {"expecting", reader_expecting}, {"preload", reader_preload},
      {"on_wait", reader_on_wait},   {"status", reader_status},       {"on_close", reader_on_close},
      {"at_hand", reader_at_hand},   {"release", reader_release},     {"idle", reader_idle},
      {NULL, NULL},
  };
  luaL_setfuncs(L, methods, 0);
}
