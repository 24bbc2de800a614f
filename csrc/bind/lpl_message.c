/* The tables that Lua sees of a request or response. What is not always asked for is made when it is: path, query,
   protocol_version, and in a late message the fields. */
#include <string.h>

#include "lpl_message.h"

#define SHARED "partline.shared" /* registry: the shared table */

/* ---- what is made late ---- */

static const char head_key; /* its address: where a message keeps its head until the fields are asked for */

/* The upvalues of a message's metamethods. */
enum { UP_SHARED = 1, UP_VERSION };

static bool is_response (const char *p, size_t n) {
  while (n > 0 && (*p == '\r' || *p == '\n')) p++, n--; /* empty lines may stand before the start line */
  return n > 5 && memcmp(p, "HTTP/", 5) == 0;
}

/* The fields of the head at the top of the stack, which has been parsed once: it cannot fail. Pops the head. */
static void push_late_fields (lua_State *L) {
  size_t n;
  const char *base = lua_tolstring(L, -1, &n);
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) most += base[i] == '\n';
  pl_field *field = lpl_newuserdata(L, sizeof(pl_field) * most, 0);
  pl_head h;
  pl_head_init(&h, is_response(base, n) ? PL_RESPONSE : PL_REQUEST, (pl_head_limits){UINT32_MAX, most, UINT32_MAX},
               field);
  pl_head_step(&h, base, n);
  lpl_push_fields(L, lua_upvalueindex(UP_SHARED), &h, base, false);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Sets what is on the top, unless the message has it. */
static void set_late (lua_State *L, const char *name) {
  lua_pushstring(L, name);
  if (lua_rawget(L, 1) == LUA_TNIL) {
    lua_pushvalue(L, -2);
    lua_setfield(L, 1, name);
  }
  lua_pop(L, 2);
}

/* path and query are the target up to "?" and behind it. */
static void set_path (lua_State *L) {
  size_t n;
  lua_pushliteral(L, "target");
  if (lua_rawget(L, 1) != LUA_TSTRING) return;
  const char *t = lua_tolstring(L, -1, &n), *q = memchr(t, '?', n);
  lua_pushlstring(L, t, q ? (size_t)(q - t) : n);
  set_late(L, "path");
  if (q == NULL) return;
  lua_pushlstring(L, q + 1, n - (size_t)(q + 1 - t));
  set_late(L, "query");
}

static void set_fields (lua_State *L) {
  if (lua_rawgetp(L, 1, &head_key) != LUA_TSTRING) return;
  push_late_fields(L);
  lua_setfield(L, 1, "headers");
  lua_pushnil(L);
  lua_rawsetp(L, 1, &head_key);
}

/* Makes what the message at 1 has under this name, if it has. */
static void make (lua_State *L, const char *name) {
  if (strcmp(name, "headers") == 0) {
    set_fields(L);
  } else if (strcmp(name, "path") == 0 || strcmp(name, "query") == 0) {
    set_path(L);
  } else if (strcmp(name, "protocol_version") == 0) {
    lua_pushvalue(L, lua_upvalueindex(UP_VERSION));
    lua_setfield(L, 1, "protocol_version");
  }
}

/* Fennel's way to write the name at 2 becomes ours: protocol-version, keep-alive?; false when it is ours already. */
static bool snake (lua_State *L) {
  size_t n;
  const char *name = lua_tolstring(L, 2, &n);
  if (strpbrk(name, "-?") == NULL) return false;
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, n);
  for (size_t i = 0; i < n; i++) out[i] = (char)(name[i] == '-' ? '_' : name[i]);
  luaL_pushresultsize(&b, n > 0 && name[n - 1] == '?' ? n - 1 : n);
  lua_replace(L, 2);
  return true;
}

static int message_index (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  if (snake(L)) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, 1) != LUA_TNIL) return 1;
  }
  make(L, lua_tostring(L, 2));
  lua_pushvalue(L, 2);
  lua_rawget(L, 1);
  return 1;
}

static int message_next (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}

static int message_pairs (lua_State *L) {
  static const char *const late[] = {"headers", "path", "protocol_version"};
  luaL_checktype(L, 1, LUA_TTABLE);
  for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
    lua_settop(L, 1);
    lua_pushstring(L, late[i]);
    if (lua_rawget(L, 1) == LUA_TNIL) make(L, late[i]);
  }
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_rawsetp(L, 1, &head_key); /* whose fields may have been replaced before they were asked for */
  lua_pushcfunction(L, message_next);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* ---- messages ---- */

const char *lpl_framing_name (const pl_frame *f) {
  static const char *const name[] = {"none", "length", "chunked", "close"};
  return name[f->body];
}

const char *lpl_expect_name (const pl_frame *f) {
  static const char *const name[] = {NULL, "continue", "other"};
  return name[f->expect];
}

void lpl_push_about (lua_State *L, int idx, lpl_abouts whose, const pl_head *h, const pl_frame *f) {
  bool http10 = h->minor == 0, coded = f->seen >> PL_F_CONTENT_ENCODING & 1;
  int bits = f->keep_alive | f->upgrade << 1 | http10 << 2 | coded << 3;
  int key = (int)whose + ((int)f->body * 3 + (int)f->expect) * 16 + bits;
  if (lua_rawgeti(L, idx, key) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 8);
  lua_pushstring(L, lpl_framing_name(f));
  lua_setfield(L, -2, "framing");
  lua_pushboolean(L, f->keep_alive);
  lua_setfield(L, -2, "keep_alive");
  lua_pushstring(L, lpl_expect_name(f));
  lua_setfield(L, -2, "expect");
  lua_pushboolean(L, f->upgrade);
  lua_setfield(L, -2, "upgrade");
  lua_pushboolean(L, http10);
  lua_setfield(L, -2, "http10");
  lua_pushboolean(L, coded);
  lua_setfield(L, -2, "coded");
  lua_pushboolean(L, f->body == PL_BODY_NONE && f->expect == PL_EXPECT_NONE && f->keep_alive && !f->upgrade && !http10);
  lua_setfield(L, -2, "plain");
  lua_pushvalue(L, -1);
  lua_rawseti(L, idx, key);
}

static void set_string (lua_State *L, const char *key, const char *p, size_t n) {
  lua_pushlstring(L, p, n);
  lua_setfield(L, -2, key);
}

/* A message but for its fields. */
static void push_start (lua_State *L, const pl_head *h, const pl_frame *f, const char *base) {
  bool length = f->body == PL_BODY_LENGTH;
  /* room for the body and what server and client add */
  lua_createtable(L, 0, h->kind == PL_REQUEST ? (length ? 4 : 3) : 8);
  if (h->kind == PL_REQUEST) {
    set_string(L, "method", base + h->method, h->method_len);
    set_string(L, "target", base + h->target, h->target_len);
  } else {
    lua_pushinteger(L, h->status);
    lua_setfield(L, -2, "status");
    set_string(L, "reason_phrase", base + h->reason, h->reason_len);
  }
  if (!length) return;
  lua_pushinteger(L, (lua_Integer)f->length);
  lua_setfield(L, -2, "length");
}

void lpl_push_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, const char *base, bool lower) {
  push_start(L, h, f, base);
  lpl_push_fields(L, idx, h, base, lower);
  lua_setfield(L, -2, "headers");
  lua_rawgeti(L, idx, LPL_MESSAGES + h->minor);
  lua_setmetatable(L, -2);
}

void lpl_push_late_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, int head) {
  push_start(L, h, f, lua_tostring(L, head));
  lua_pushvalue(L, head);
  lua_rawsetp(L, -2, &head_key);
  lua_rawgeti(L, idx, LPL_MESSAGES + h->minor);
  lua_setmetatable(L, -2);
}

/* The tables { name, major, minor } are shared by all messages. */
static void push_version (lua_State *L, int minor) {
  lua_createtable(L, 0, 3);
  lua_pushliteral(L, "HTTP");
  lua_setfield(L, -2, "name");
  lua_pushinteger(L, 1);
  lua_setfield(L, -2, "major");
  lua_pushinteger(L, minor);
  lua_setfield(L, -2, "minor");
}

/* The metatables of messages, one for each version; the shared table is on the top. */
static void set_messages (lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", message_index}, {"__pairs", message_pairs}, {NULL, NULL}};
  for (int minor = 0; minor < 10; minor++) {
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -2);
    push_version(L, minor);
    luaL_setfuncs(L, meta, 2);
    lua_rawseti(L, -2, LPL_MESSAGES + minor);
  }
}

void lpl_push_shared (lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, SHARED); }

void lpl_open_message (lua_State *L) {
  lua_createtable(L, LPL_SHARED_SIZE, 1);
  lpl_open_fields(L);
  set_messages(L);
  lua_setfield(L, LUA_REGISTRYINDEX, SHARED);
}
