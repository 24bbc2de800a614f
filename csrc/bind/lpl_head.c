/* The read of a request or response head from a Reader. */
#include <string.h>

#include "lpl_message.h"

#define HEAD "partline.head"

/* A parser of heads: one will do for many connections. */
typedef struct lpl_head {
  pl_head_limits max;
  const struct pl_simd *simd;
} lpl_head;

/* Its memory, used again for each message. It is lent to one read at a time, from the first byte of a head on: whoever
   reads with the same parser meanwhile (another coroutine, a finaliser) has memory of his own, and who only waits for a
   head to begin has none. */
enum { UV_MEMORY = 1 };

typedef struct lpl_memory {
  pl_head h;
  pl_field field[1]; /* max.fields of them */
} lpl_memory;

/* ---- reading a head ---- */

/* head.new(limits): limits.head bytes, limits.fields, limits.target bytes */
static int head_new (lua_State *L) {
  lua_settop(L, 1);
  pl_head_limits max = {
      .bytes = lpl_limit(L, 1, "head", 16 * 1024),
      .fields = lpl_limit(L, 1, "fields", 100),
      .target = lpl_limit(L, 1, "target", 8 * 1024),
  };
  luaL_argcheck(L, max.fields <= 100000, 1, "limit 'fields' out of range");
  lpl_head *head = lpl_newuserdata(L, sizeof *head, UV_MEMORY);
  head->max = max;
  head->simd = lpl_simd();
  luaL_setmetatable(L, HEAD);
  return 1;
}

/* The stack of a read. */
enum { SELF = 1, FROM, ROLE, METHOD, LATE, MEMORY };

/* message, framing, length, keep_alive, expect, upgrade, http10: what the Lua side builds a body from. The head's bytes are the
   string on the top. */
static int push_message (lua_State *L, const pl_head *h, const pl_frame *f) {
  int top = lua_gettop(L);
  lpl_push_shared(L);
  if (lua_toboolean(L, LATE)) lpl_push_late_message(L, top + 1, h, f, top);
  else lpl_push_message(L, top + 1, h, f, lua_tostring(L, top), false);
  lua_pushstring(L, lpl_framing_name(f));
  if (f->body == PL_BODY_LENGTH) lua_pushinteger(L, (lua_Integer)f->length);
  else lua_pushnil(L);
  lua_pushboolean(L, f->keep_alive);
  lua_pushstring(L, lpl_expect_name(f));
  lua_pushboolean(L, f->upgrade);
  lua_pushboolean(L, h->minor == 0);
  return 7;
}

static pl_asked asked (lua_State *L) {
  const char *method = lua_tostring(L, METHOD);
  if (method && strcmp(method, "HEAD") == 0) return PL_ASKED_HEAD;
  return method && strcmp(method, "CONNECT") == 0 ? PL_ASKED_CONNECT : PL_ASKED_OTHER;
}

/* The head is complete at the front of s. Without memory for the message it stays there. */
static int complete (lua_State *L, const pl_head *h, lpl_reader *r, pl_slice s) {
  pl_frame f;
  uint64_t mark = lpl_mark(r);
  lua_pushlstring(L, s.p, h->bytes);
  const char *base = lua_tostring(L, -1);
  pl_err e = h->kind == PL_REQUEST ? pl_frame_request(h, base, &f) : pl_frame_response(h, base, asked(L), &f);
  int n = e ? lpl_fail(L, e, f.err_at) : push_message(L, h, &f);
  lpl_use(L, r, h->bytes, mark);
  return n;
}

/* The number of answers, or LPL_WAIT. */
static int read_step (lua_State *L, pl_head *h, lpl_reader *r) {
  pl_slice s = {"", 0};
  pl_got got = lpl_view(r, &s);
  while (got == PL_DATA) {
    lpl_head_again(h, s.n);
    got = pl_head_step(h, s.p, s.n);
    if (got == PL_END) return complete(L, h, r, s);
    if (got == PL_FAIL) return lpl_fail(L, h->err, h->err_at);
    got = lpl_extend(r, 0);
    if (got == PL_DATA) got = lpl_view(r, &s);
  }
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, FROM);
  if (lpl_view(r, &s) != PL_DATA) s.n = 0;
  if (!pl_head_idle(h, s.p, s.n)) return lpl_fail(L, PL_E_UNEXPECTED_EOF, s.n);
  lua_pushnil(L);
  return 1;
}

static void borrow (lua_State *L, const lpl_head *self) {
  lpl_getuv(L, SELF, UV_MEMORY);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lpl_newuserdata(L, sizeof(lpl_memory) + self->max.fields * sizeof(pl_field), 0);
  } else {
    lua_pushnil(L);
    lpl_setuv(L, SELF, UV_MEMORY);
  }
  lua_replace(L, MEMORY);
}

/* The memory of this read; NULL as long as nothing has come. */
static lpl_memory *memory (lua_State *L, lpl_reader *r) {
  pl_slice s;
  if (!lua_isnil(L, MEMORY)) return lua_touserdata(L, MEMORY);
  if (lpl_view(r, &s) == PL_MORE) return NULL;
  const lpl_head *self = lua_touserdata(L, SELF);
  borrow(L, self);
  lpl_memory *m = lua_touserdata(L, MEMORY);
  bool request = strcmp(lua_tostring(L, ROLE), "request") == 0;
  pl_head_init(&m->h, request ? PL_REQUEST : PL_RESPONSE, self->max, m->field);
  m->h.simd = self->simd;
  return m;
}

static int give_back (lua_State *L, int answers) {
  lua_pushvalue(L, MEMORY);
  lpl_setuv(L, SELF, UV_MEMORY);
  return answers;
}

static int read_k (lua_State *L, int status, lua_KContext ctx) {
  lpl_reader *r = lua_touserdata(L, FROM);
  (void)status;
  if (ctx) lpl_wait_end(L, FROM);
  for (;;) {
    lpl_memory *m = memory(L, r);
    int n = m ? read_step(L, &m->h, r) : LPL_WAIT;
    if (n != LPL_WAIT) return give_back(L, n);
    lua_callk(L, lpl_wait_begin(L, FROM), LPL_WAIT_RESULTS, 1, read_k);
    lpl_wait_end(L, FROM);
  }
}

/* head:read(reader, "request" | "response" [, method [, late]]): message, framing ("none" | "length" | "chunked" |
   "close"), length, keep_alive, expect (nil | "continue" | "other"), upgrade, http10 | nil at a clean end | nil, message,
   code. late: headers are built when they are asked for. May yield. RFC 9112 2 to 6. */
static int head_read (lua_State *L) {
  static const char *const roles[] = {"request", "response", NULL};
  luaL_checkudata(L, SELF, HEAD);
  lpl_checkreader(L, FROM);
  luaL_checkoption(L, ROLE, NULL, roles);
  luaL_checkstack(L, 24, NULL);
  lua_settop(L, LATE);
  lua_pushnil(L); /* MEMORY */
  return read_k(L, LUA_OK, 0);
}

int lpl_open_head (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"new", head_new}, {"wrap", lpl_headers_wrap}, {"order", lpl_headers_order}, {NULL, NULL}};
  lpl_open_message(L);
  luaL_newmetatable(L, HEAD);
  lua_newtable(L); /* methods */
  lua_pushcfunction(L, head_read);
  lua_setfield(L, -2, "read");
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
