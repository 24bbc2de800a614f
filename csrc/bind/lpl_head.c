/* The read of a request or response head from a Reader. */
#include <string.h>

#include "lpl_head.h"

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
  const lpl_head *owner;
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
  luaL_setmetatable(L, LPL_HEAD);
  return 1;
}

/* message, about. The head's bytes are the string on the top. */
static int push_message (lua_State *L, const lpl_read *a, const pl_head *h, const pl_frame *f) {
  int head = lua_gettop(L);
  if (a->late) lpl_push_late_message(L, a->shared, h, f, head);
  else lpl_push_message(L, a->shared, h, f, lua_tostring(L, head), false);
  lpl_push_about(L, a->shared, LPL_OURS, h, f);
  return 2;
}

/* The head is complete at the front of s. Without memory for the message it stays there. */
static int complete (lua_State *L, const lpl_read *a, const pl_head *h, lpl_reader *r, pl_slice s) {
  pl_frame f;
  uint64_t mark = lpl_mark(r);
  const char *base = lua_pushlstring(L, s.p, h->bytes);
  pl_err e = h->kind == PL_REQUEST ? pl_frame_request(h, base, &f) : pl_frame_response(h, base, a->asked, &f);
  int n = e ? lpl_fail(L, e, f.err_at) : push_message(L, a, h, &f);
  lpl_use(L, r, h->bytes, mark);
  return n;
}

/* The number of answers, or LPL_WAIT. */
static int read_step (lua_State *L, const lpl_read *a, pl_head *h, lpl_reader *r) {
  pl_slice s = {"", 0};
  pl_got got = lpl_view(r, &s);
  while (got == PL_DATA) {
    lpl_head_again(h, s.n);
    got = pl_head_step(h, s.p, s.n);
    if (got == PL_END) return complete(L, a, h, r, s);
    if (got == PL_FAIL) return lpl_fail(L, h->err, h->err_at);
    got = lpl_extend(r, 0);
    if (got == PL_DATA) got = lpl_view(r, &s);
  }
  if (got == PL_MORE) return LPL_WAIT;
  if (got == PL_FAIL) return lpl_reader_fail(L, a->from);
  if (lpl_view(r, &s) != PL_DATA) s.n = 0;
  if (!pl_head_idle(h, s.p, s.n)) return lpl_fail(L, PL_E_UNEXPECTED_EOF, s.n);
  lua_pushnil(L);
  return 1;
}

static void borrow (lua_State *L, const lpl_read *a, const lpl_head *self) {
  lpl_getuv(L, a->self, UV_MEMORY);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lpl_memory *m = lpl_newuserdata(L, sizeof *m + self->max.fields * sizeof(pl_field), 0);
    m->owner = self;
  } else {
    lua_pushnil(L);
    lpl_setuv(L, a->self, UV_MEMORY);
  }
  lua_replace(L, a->memory);
}

/* The memory of this read; NULL as long as nothing has come. */
static lpl_memory *memory (lua_State *L, const lpl_read *a, lpl_reader *r) {
  pl_slice s;
  lpl_memory *m = lua_touserdata(L, a->memory);
  if (m != NULL) return m;
  if (lpl_view(r, &s) == PL_MORE) return NULL;
  const lpl_head *self = lua_touserdata(L, a->self);
  borrow(L, a, self);
  m = lua_touserdata(L, a->memory);
  pl_head_init(&m->h, a->kind, self->max, m->field);
  m->h.simd = self->simd;
  return m;
}

bool lpl_is_memory (lua_State *L, int idx, int head) {
  const lpl_memory *m = lua_touserdata(L, idx);
  return m != NULL && lua_rawlen(L, idx) >= sizeof *m && m->owner == lua_touserdata(L, head);
}

int lpl_read_once (lua_State *L, const lpl_read *a, lpl_reader *r) {
  lpl_memory *m = memory(L, a, r);
  int n = m ? read_step(L, a, &m->h, r) : LPL_WAIT;
  if (n == LPL_WAIT) return n;
  lua_pushvalue(L, a->memory);
  lpl_setuv(L, a->self, UV_MEMORY);
  return n;
}

/* The stack of head:read. */
enum { SELF = 1, FROM, ROLE, METHOD, LATE, MEMORY };

static int read_k (lua_State *L, int status, lua_KContext kind) {
  lpl_reader *r = lua_touserdata(L, FROM);
  lpl_read a = {SELF, FROM, lua_upvalueindex(1), MEMORY, (pl_head_kind)kind, PL_ASKED_OTHER, lua_toboolean(L, LATE)};
  a.asked = lpl_asked(lua_tostring(L, METHOD));
  if (status == LUA_YIELD) lpl_wait_end(L, FROM);
  for (;;) {
    int n = lpl_read_once(L, &a, r);
    if (n != LPL_WAIT) return n;
    lua_callk(L, lpl_wait_begin(L, FROM), LPL_WAIT_RESULTS, kind, read_k);
    lpl_wait_end(L, FROM);
  }
}

/* head:read(reader, "request" | "response" [, method [, late]]): message, about (see lpl_push_about) | nil at a clean
   end | nil, message, code. late: headers are built when they are asked for. May yield. RFC 9112 2 to 6. */
static int head_read (lua_State *L) {
  static const char *const roles[] = {"request", "response", NULL};
  static const pl_head_kind kinds[] = {PL_REQUEST, PL_RESPONSE};
  luaL_checkudata(L, SELF, LPL_HEAD);
  lpl_checkreader(L, FROM);
  int role = luaL_checkoption(L, ROLE, NULL, roles);
  luaL_checkstack(L, 24, NULL);
  lua_settop(L, LATE);
  lua_pushnil(L); /* MEMORY */
  return read_k(L, LUA_OK, (lua_KContext)kinds[role]);
}

int lpl_open_head (lua_State *L) {
  static const luaL_Reg functions[] = {{"new", head_new},
                                       {"server", lpl_serve_new},
                                       {"wrap", lpl_headers_wrap},
                                       {"order", lpl_headers_order},
                                       {NULL, NULL}};
  lpl_open_message(L);
  lpl_serve_open(L);
  luaL_newmetatable(L, LPL_HEAD);
  lua_newtable(L); /* methods */
  lpl_push_shared(L);
  lua_pushcclosure(L, head_read, 1);
  lua_setfield(L, -2, "read");
  lpl_push_shared(L);
  lua_pushcclosure(L, lpl_head_ask, 1);
  lua_setfield(L, -2, "ask");
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
