/* URLs, percent coding and the pairs of queries and forms, as Lua values. Nothing here waits. */
#include "lpl.h"
#include "pl_url.h"

static pl_slice check_slice (lua_State *L, int idx) {
  pl_slice s;
  s.p = luaL_checklstring(L, idx, &s.n);
  return s;
}

static void set_part (lua_State *L, const char *key, pl_slice part) {
  if (part.p == NULL) return;
  lua_pushlstring(L, part.p, part.n);
  lua_setfield(L, -2, key);
}

/* url.split(s): { scheme, userinfo, host, port (a number), path, query, fragment }, absent ones nil | nil, message, code */
static int split (lua_State *L) {
  pl_url u;
  size_t at = 0;
  pl_err e = pl_url_split(check_slice(L, 1), &u, &at);
  if (e) return lpl_fail(L, e, at);
  lua_createtable(L, 0, 7);
  set_part(L, "scheme", u.scheme);
  set_part(L, "userinfo", u.userinfo);
  set_part(L, "host", u.host);
  set_part(L, "path", u.path);
  set_part(L, "query", u.query);
  set_part(L, "fragment", u.fragment);
  if (u.port.n > 0) {
    lua_Integer port = 0;
    for (size_t i = 0; i < u.port.n; i++) port = port * 10 + (u.port.p[i] - '0');
    lua_pushinteger(L, port);
    lua_setfield(L, -2, "port");
  }
  return 1;
}

/* url.encode(s [, keep]): keep: "unreserved", "path", "query", "form", "url" (pl_url_keep) */
static int encode (lua_State *L) {
  static const char *const keeps[] = {"unreserved", "path", "query", "form", "url", NULL};
  pl_slice s = check_slice(L, 1);
  int keep = luaL_checkoption(L, 2, "unreserved", keeps);
  luaL_argcheck(L, s.n <= (size_t)-1 / 4, 1, "string too long");
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, 3 * s.n);
  luaL_pushresultsize(&b, pl_url_encode(s, (pl_url_keep)keep, out));
  return 1;
}

static void push_decoded (lua_State *L, pl_slice s, bool plus) {
  if (s.n == 0 || (memchr(s.p, '%', s.n) == NULL && !(plus && memchr(s.p, '+', s.n)))) {
    lua_pushlstring(L, s.n ? s.p : "", s.n);
    return;
  }
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, s.n);
  luaL_pushresultsize(&b, pl_url_decode(s, plus, out));
}

/* url.decode(s [, plus]): plus: "+" is a space */
static int decode (lua_State *L) {
  pl_slice s = check_slice(L, 1);
  push_decoded(L, s, lua_toboolean(L, 2));
  return 1;
}

/* url.pairs(s [, max]): { { name, value }, ... } decoded, "+" as a space | nil, message, code */
static int pairs (lua_State *L) {
  pl_slice rest = check_slice(L, 1), name, value;
  lua_Integer max = luaL_optinteger(L, 2, LUA_MAXINTEGER), n = 0;
  lua_newtable(L);
  while (pl_url_pair(&rest, &name, &value)) {
    if (++n > max) return lpl_fail(L, PL_E_TOO_MANY_PARAMETERS, LPL_NOWHERE);
    lua_createtable(L, 2, 0);
    push_decoded(L, name, true);
    lua_rawseti(L, -2, 1);
    push_decoded(L, value, true);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, n);
  }
  return 1;
}

int lpl_open_url (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"split", split}, {"encode", encode}, {"decode", decode}, {"pairs", pairs}, {NULL, NULL},
  };
  luaL_newlib(L, functions);
  return 1;
}
