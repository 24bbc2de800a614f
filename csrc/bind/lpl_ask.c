/* The common case of a client, in one call: a small request over a socket and the head of its answer, with the body when
   that has come along. */
#include <string.h>

#include "lpl_head.h"
#include "lpl_source.h"
#include "lpl_writer.h"

/* The stack of head:ask. */
enum { SELF = 1, FROM, TO, HEAD, BODY, METHOD, SECONDS, MOST, EAGER, MEMORY };

/* ctx: what is done next */
enum { FLUSH, READ };

enum { UNLUCKY = 32 };

/* A string at idx, or nothing. */
static pl_slice slice_at (lua_State *L, int idx) {
  pl_slice s = {"", 0};
  if (!lua_isnoneornil(L, idx)) s.p = lua_tolstring(L, idx, &s.n);
  return s;
}

/* Pushes the body of the response on the top but one, if its length is known and all of it is here: then it is used. */
static bool push_body (lua_State *L, lpl_reader *r) {
  pl_slice s;
  lua_getfield(L, -1, "coded");
  bool coded = lua_toboolean(L, -1);
  lua_pushliteral(L, "length");
  lua_rawget(L, -4);
  bool known = lua_isinteger(L, -1);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 2);
  if (coded || !known || n > lua_tointeger(L, MOST)) return false;
  if (n == 0) {
    lua_pushliteral(L, "");
    return true;
  }
  if (pl_buf_len(&r->q) == 0 || lpl_view(r, &s) != PL_DATA || s.n < (size_t)n) return false;
  uint64_t mark = lpl_mark(r);
  lua_pushlstring(L, s.p, (size_t)n);
  lpl_use(L, r, (size_t)n, mark);
  return true;
}

/* Where server and client have one core, the answer is often here when the request is sent, and one system call can be
   spared. Where it was not, nobody looks for some time. */
static int read_eagerly (lua_State *L, const lpl_read *a, lpl_reader *r) {
  bool look = lua_toboolean(L, EAGER) && r->u.sock.luck >= 0;
  if (r->u.sock.luck < 0) r->u.sock.luck++;
  if (look) lpl_socket_woken(r);
  int n = lpl_read_once(L, a, r);
  if (look && n == LPL_WAIT) r->u.sock.luck = -UNLUCKY;
  return n;
}

static int ask_k (lua_State *L, int status, lua_KContext next) {
  lpl_reader *r = lua_touserdata(L, FROM);
  lpl_writer *w = lua_touserdata(L, TO);
  lpl_read a = {SELF, FROM, lua_upvalueindex(1), MEMORY, PL_RESPONSE, lpl_asked(lua_tostring(L, METHOD)), true};
  if (status == LUA_YIELD && next == FLUSH) lpl_writer_wait_end(L, TO);
  if (status == LUA_YIELD && next == READ) lpl_wait_end(L, FROM);
  while (next == FLUSH) {
    pl_got got = lpl_writer_flush(w);
    if (got == PL_FAIL) return lpl_writer_fail(L, w);
    if (got == PL_END) {
      lpl_socket_deadline(r, lua_tonumber(L, SECONDS));
      next = READ;
      break;
    }
    lua_callk(L, lpl_writer_wait_begin(L, TO), LPL_WAIT_RESULTS, FLUSH, ask_k);
    lpl_writer_wait_end(L, TO);
  }
  for (;;) {
    int n = status == LUA_OK ? read_eagerly(L, &a, r) : lpl_read_once(L, &a, r);
    status = LUA_YIELD;
    if (n == 2 && lua_isinteger(L, MOST) && push_body(L, r)) return 3;
    if (n != LPL_WAIT) return n;
    lua_callk(L, lpl_wait_begin(L, FROM), LPL_WAIT_RESULTS, READ, ask_k);
    lpl_wait_end(L, FROM);
  }
}

/* head:ask(reader, writer, head, body | nil, method, seconds, most | nil, eager): sends a request and reads the head of the
   next response, which has to come within so many seconds: response, about [, body] | nil at a clean end | nil, message,
   code. body: if its length is known and at most `most`, there is no Content-Encoding, and it has come along. eager:
   the answer may be looked for before it is waited for; not when others would never have their turn. Reader and Writer
   of a socket; the request should be small. May yield. RFC 9112 2 to 6. */
int lpl_head_ask (lua_State *L) {
  luaL_checkudata(L, SELF, LPL_HEAD);
  lpl_reader *r = lpl_checkreader(L, FROM);
  lpl_writer *w = luaL_checkudata(L, TO, LPL_WRITER);
  luaL_argcheck(L, r->src == &lpl_from_socket, FROM, "reader of a socket expected");
  luaL_argcheck(L, w->ready && !w->through_call, TO, "writer of a socket expected");
  luaL_checkstring(L, HEAD);
  luaL_optstring(L, BODY, NULL);
  luaL_optstring(L, METHOD, NULL);
  luaL_checknumber(L, SECONDS);
  luaL_checkstack(L, 24, NULL);
  lua_settop(L, EAGER);
  lua_pushnil(L); /* MEMORY */
  if (lpl_writer_free(w)) {
    bool whole = lpl_writer_send_both(w, slice_at(L, HEAD), slice_at(L, BODY));
    if (!whole) return ask_k(L, LUA_OK, FLUSH);
    lpl_socket_deadline(r, lua_tonumber(L, SECONDS));
    return ask_k(L, LUA_OK, READ);
  }
  if (!lpl_writer_gather(w, slice_at(L, HEAD)) || !lpl_writer_gather(w, slice_at(L, BODY))) return lpl_writer_fail(L, w);
  return ask_k(L, LUA_OK, FLUSH);
}
