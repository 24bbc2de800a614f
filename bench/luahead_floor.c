/* What the table of a request costs when nothing is parsed: the offsets of its fields are found beforehand, by prepare,
   and the tables are made from them with the plain Lua C API. The floor of bench/luahead.lua, which compiles this. */
#include <string.h>

#include "lauxlib.h"
#include "lua.h"

enum { FIELDS = 32, REQUESTS = 512 };

typedef struct span {
  size_t at, n;
} span;

typedef struct request {
  span method, target, name[FIELDS], value[FIELDS];
  int fields;
  size_t length;
} request;

static request requests[REQUESTS];

static span until (const char *s, size_t at, const char *end) {
  return (span){at, strcspn(s + at, end)};
}

/* prepare(i, s): remembers where the fields of the request s are */
static int prepare (lua_State *L) {
  request *r = &requests[luaL_checkinteger(L, 1) % REQUESTS];
  const char *s = luaL_checkstring(L, 2);
  r->method = until(s, 0, " ");
  r->target = until(s, r->method.n + 1, " ");
  size_t at = strcspn(s, "\n") + 1;
  for (r->fields = 0; s[at] != '\r' && r->fields < FIELDS; r->fields++) {
    r->name[r->fields] = until(s, at, ":");
    r->value[r->fields] = until(s, at + r->name[r->fields].n + 2, "\r");
    at = r->value[r->fields].at + r->value[r->fields].n + 2;
  }
  r->length = at + 2;
  return 0;
}

static void set (lua_State *L, const char *key, const char *s, span v) {
  lua_pushlstring(L, s + v.at, v.n);
  lua_setfield(L, -2, key);
}

/* eager(s, i): { method, target, headers = { ... } }, and where the next message begins */
static int eager (lua_State *L) {
  const char *s = luaL_checkstring(L, 1);
  const request *r = &requests[luaL_optinteger(L, 2, 0) % REQUESTS];
  lua_createtable(L, 0, 3);
  set(L, "method", s, r->method);
  set(L, "target", s, r->target);
  lua_createtable(L, 0, r->fields);
  for (int i = 0; i < r->fields; i++) {
    lua_pushlstring(L, s + r->name[i].at, r->name[i].n);
    lua_pushlstring(L, s + r->value[i].at, r->value[i].n);
    lua_rawset(L, -3);
  }
  lua_setfield(L, -2, "headers");
  lua_pushinteger(L, (lua_Integer)r->length + 1);
  return 2;
}

/* late(s, i): { method, target, head }: what a table whose headers are built later must hold at least */
static int late (lua_State *L) {
  const char *s = luaL_checkstring(L, 1);
  const request *r = &requests[luaL_optinteger(L, 2, 0) % REQUESTS];
  lua_createtable(L, 0, 3);
  set(L, "method", s, r->method);
  set(L, "target", s, r->target);
  lua_pushlstring(L, s, r->length);
  lua_setfield(L, -2, "head");
  lua_pushinteger(L, (lua_Integer)r->length + 1);
  return 2;
}

/* nothing(s): the call alone */
static int nothing (lua_State *L) {
  luaL_checkstring(L, 1);
  return 0;
}

int luaopen_luahead_floor (lua_State *L);

int luaopen_luahead_floor (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"prepare", prepare}, {"eager", eager}, {"late", late}, {"nothing", nothing}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
