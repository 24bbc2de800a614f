/* Heads as Lua tables: the fields with look-up that ignores case, and the read of a request or response head from a
   Reader. */
#include <string.h>

#include "lpl.h"

#define HEAD "partline.head"
#define HEADERS "partline.headers"
#define VERSIONS "partline.versions"
#define ORDER "partline.order" /* registry: weak table, headers -> whole head (string) or { name, value, ... } */

/* A parser of heads: one per connection. */
typedef struct lpl_head {
  pl_head_limits max;
  const struct pl_simd *simd;
} lpl_head;

/* Its memory, used again for each message. It is lent to one read at a time: whoever reads with the same parser
   meanwhile (another coroutine, a finaliser) has memory of his own. */
enum { UV_MEMORY = 1 };

typedef struct lpl_memory {
  pl_head h;
  pl_field field[1]; /* max.fields of them */
} lpl_memory;

/* ---- the table of fields ---- */

static void push_value (lua_State *L, const pl_field *f, const char *base) {
  pl_slice v = pl_value(f, base);
  if (!f->folded) {
    lua_pushlstring(L, v.p, v.n);
    return;
  }
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, v.n);
  luaL_pushresultsize(&b, pl_unfold(v, out));
}

/* The value of a repeated field: joined with ", ", or a list for Set-Cookie (RFC 9110 5.3). The table of fields is on
   the top, then the key; pops the key. */
static void add_repeated (lua_State *L, const pl_field *f, const char *base) {
  lua_pushvalue(L, -1);
  lua_rawget(L, -3);
  if (lua_istable(L, -1)) {
    push_value(L, f, base);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 2);
    return;
  }
  lua_pushliteral(L, ", ");
  push_value(L, f, base);
  lua_concat(L, 3);
  lua_rawset(L, -3);
}

static void add_first (lua_State *L, const pl_field *f, const char *base) {
  if (f->id == PL_F_SET_COOKIE) {
    lua_createtable(L, 1, 0);
    push_value(L, f, base);
    lua_rawseti(L, -2, 1);
  } else {
    push_value(L, f, base);
  }
  lua_rawset(L, -3);
}

static const pl_field *same_name (const pl_head *h, uint32_t i, const char *base) {
  pl_slice name = pl_name(&h->field[i], base);
  for (uint32_t j = 0; j < i; j++)
    if (h->field[j].name_len == name.n && pl_ieq(base + h->field[j].name, name.n, name.p, name.n)) return &h->field[j];
  return NULL;
}

void lpl_push_headers (lua_State *L, const pl_head *h, const char *base) {
  luaL_checkstack(L, 8, NULL);
  lua_createtable(L, 0, (int)h->nfields);
  for (uint32_t i = 0; i < h->nfields; i++) {
    const pl_field *f = &h->field[i], *before = same_name(h, i, base), *key = before ? before : f;
    lua_pushlstring(L, base + key->name, key->name_len);
    if (before) add_repeated(L, f, base);
    else add_first(L, f, base);
  }
  luaL_setmetatable(L, HEADERS);
}

/* The key of the table at 1 that equals the string at 2 but for case; pushes key and value. */
static bool find_key (lua_State *L) {
  size_t n, m;
  const char *name = lua_tolstring(L, 2, &n);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &m) : NULL;
    if (key && pl_ieq(key, m, name, n)) return true;
    lua_pop(L, 1);
  }
  return false;
}

static int headers_index (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (lua_type(L, 2) != LUA_TSTRING || !find_key(L)) lua_pushnil(L);
  return 1;
}

/* A new name in another case is the old one. */
static int headers_newindex (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  if (lua_type(L, 2) == LUA_TSTRING && find_key(L)) {
    lua_pop(L, 1);
    lua_replace(L, 2);
  }
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

/* headers.wrap(t): t with look-up that ignores case */
static int headers_wrap (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_setmetatable(L, HEADERS);
  return 1;
}

/* ---- the order of fields ---- */

void lpl_remember_order (lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  lua_getfield(L, LUA_REGISTRYINDEX, ORDER);
  lua_pushvalue(L, idx);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

void lpl_push_order (lua_State *L, const pl_head *h, const char *base) {
  lua_createtable(L, 2 * (int)h->nfields, 0);
  for (uint32_t i = 0; i < h->nfields; i++) {
    lua_pushlstring(L, base + h->field[i].name, h->field[i].name_len);
    lua_rawseti(L, -2, 2 * (lua_Integer)i + 1);
    push_value(L, &h->field[i], base);
    lua_rawseti(L, -2, 2 * (lua_Integer)i + 2);
  }
}

/* Empty lines may stand before the start line. */
static bool is_response (const char *p, size_t n) {
  while (n > 0 && (*p == '\r' || *p == '\n')) p++, n--;
  return n > 5 && memcmp(p, "HTTP/", 5) == 0;
}

/* { name, value, ... } of a whole head; the string is at idx. */
static void push_ordered (lua_State *L, int idx) {
  size_t n;
  const char *base = lua_tolstring(L, idx, &n);
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) most += base[i] == '\n';
  pl_field *field = lua_newuserdata(L, sizeof(pl_field) * (most + 1));
  pl_head h;
  pl_head_init(&h, is_response(base, n) ? PL_RESPONSE : PL_REQUEST, (pl_head_limits){UINT32_MAX, most + 1, UINT32_MAX},
               field);
  pl_head_step(&h, base, n); /* it was parsed once: cannot fail */
  lpl_push_order(L, &h, base);
}

/* headers.order(t): { name1, value1, name2, ... } as received with repeats, or nil for a table that was not received */
static int headers_order (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_getfield(L, LUA_REGISTRYINDEX, ORDER);
  lua_pushvalue(L, 1);
  lua_rawget(L, -2);
  if (lua_type(L, -1) == LUA_TSTRING) push_ordered(L, lua_gettop(L));
  return 1;
}

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

static void set_string (lua_State *L, const char *key, const char *p, size_t n) {
  lua_pushlstring(L, p, n);
  lua_setfield(L, -2, key);
}

/* The stack of a read. */
enum { SELF = 1, FROM, ROLE, METHOD, MEMORY };

/* The tables { name, major, minor } are shared by all messages. */
static void push_version (lua_State *L, int minor) {
  lua_getfield(L, LUA_REGISTRYINDEX, VERSIONS);
  lua_rawgeti(L, -1, minor);
  lua_remove(L, -2);
}

static void make_versions (lua_State *L) {
  lua_createtable(L, 9, 1);
  for (int minor = 0; minor < 10; minor++) {
    lua_createtable(L, 0, 3);
    lua_pushliteral(L, "HTTP");
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, 1);
    lua_setfield(L, -2, "major");
    lua_pushinteger(L, minor);
    lua_setfield(L, -2, "minor");
    lua_rawseti(L, -2, minor);
  }
  lua_setfield(L, LUA_REGISTRYINDEX, VERSIONS);
}

static void set_target (lua_State *L, const pl_head *h, const char *base) {
  const char *t = base + h->target, *q = memchr(t, '?', h->target_len);
  size_t path = q ? (size_t)(q - t) : h->target_len;
  set_string(L, "method", base + h->method, h->method_len);
  set_string(L, "target", t, h->target_len);
  set_string(L, "path", t, path);
  if (q) set_string(L, "query", q + 1, h->target_len - path - 1);
}

/* message, framing, length, keep_alive, expect, upgrade: what the Lua side builds a body from. The head's bytes are the
   string on the top. */
static int push_message (lua_State *L, const pl_head *h, const pl_frame *f) {
  static const char *const framing[] = {"none", "length", "chunked", "close"};
  static const char *const expect[] = {NULL, "continue", "other"};
  const char *base = lua_tostring(L, -1);
  lua_createtable(L, 0, 10);
  if (h->kind == PL_REQUEST) {
    set_target(L, h, base);
  } else {
    lua_pushinteger(L, h->status);
    lua_setfield(L, -2, "status");
    set_string(L, "reason_phrase", base + h->reason, h->reason_len);
  }
  push_version(L, h->minor);
  lua_setfield(L, -2, "protocol_version");
  lpl_push_headers(L, h, base);
  lua_pushvalue(L, -3);
  lpl_remember_order(L, -2);
  lua_setfield(L, -2, "headers");
  lua_pushstring(L, framing[f->body]);
  if (f->body == PL_BODY_LENGTH) lua_pushinteger(L, (lua_Integer)f->length);
  else lua_pushnil(L);
  lua_pushboolean(L, f->keep_alive);
  lua_pushstring(L, expect[f->expect]);
  lua_pushboolean(L, f->upgrade);
  return 6;
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

static lpl_memory *borrow (lua_State *L, const lpl_head *self) {
  lpl_getuv(L, SELF, UV_MEMORY);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return lpl_newuserdata(L, sizeof(lpl_memory) + self->max.fields * sizeof(pl_field), 0);
  }
  lua_pushnil(L);
  lpl_setuv(L, SELF, UV_MEMORY);
  return lua_touserdata(L, -1);
}

static int give_back (lua_State *L, int answers) {
  lua_pushvalue(L, MEMORY);
  lpl_setuv(L, SELF, UV_MEMORY);
  return answers;
}

static int read_k (lua_State *L, int status, lua_KContext ctx) {
  lpl_memory *m = lua_touserdata(L, MEMORY);
  (void)status;
  if (ctx) lpl_wait_end(L, FROM);
  for (;;) {
    int n = read_step(L, &m->h, lua_touserdata(L, FROM));
    if (n != LPL_WAIT) return give_back(L, n);
    lua_callk(L, lpl_wait_begin(L, FROM), LPL_WAIT_RESULTS, 1, read_k);
    lpl_wait_end(L, FROM);
  }
}

/* head:read(reader, "request" | "response" [, method]): message, framing ("none" | "length" | "chunked" | "close"),
   length, keep_alive, expect (nil | "continue" | "other"), upgrade | nil at a clean end | nil, message, code. May
   yield. RFC 9112 2 to 6. */
static int head_read (lua_State *L) {
  static const char *const roles[] = {"request", "response", NULL};
  lpl_head *self = luaL_checkudata(L, SELF, HEAD);
  lpl_checkreader(L, FROM);
  int role = luaL_checkoption(L, ROLE, NULL, roles);
  luaL_checkstack(L, 24, NULL);
  lua_settop(L, METHOD);
  lpl_memory *m = borrow(L, self);
  pl_head_init(&m->h, role == 0 ? PL_REQUEST : PL_RESPONSE, self->max, m->field);
  m->h.simd = self->simd;
  return read_k(L, LUA_OK, 0);
}

int lpl_open_head (lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", headers_index}, {"__newindex", headers_newindex}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"new", head_new}, {"wrap", headers_wrap}, {"order", headers_order}, {NULL, NULL}};
  luaL_newmetatable(L, HEADERS);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L); /* ORDER, with weak keys */
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, ORDER);
  luaL_newmetatable(L, HEAD);
  make_versions(L);
  lua_newtable(L); /* methods */
  lua_pushcfunction(L, head_read);
  lua_setfield(L, -2, "read");
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
