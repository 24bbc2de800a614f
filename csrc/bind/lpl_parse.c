/* A head in a Lua string, all at once: push.parse_request and push.parse_response. */
#include <string.h>

#include "lpl_push.h"

enum { FIELDS = 100, HEAD_BYTES = 16 * 1024, TARGET_BYTES = 8 * 1024 };

/* The upvalues of both functions. */
enum { UP_SHARED = 1, UP_SIMD };

/* The arguments of both functions. */
enum { BYTES = 1, FROM, OPTIONS };

/* Pushes an option by its name, or by the same in kebab-case. */
static bool push_option (lua_State *L, const char *name) {
  char kebab[16];
  size_t n = strlen(name);
  if (lua_getfield(L, OPTIONS, name) != LUA_TNIL) return true;
  for (size_t i = 0; i <= n; i++) kebab[i] = (char)(name[i] == '_' ? '-' : name[i]);
  lua_pop(L, 1);
  return lua_getfield(L, OPTIONS, kebab) != LUA_TNIL;
}

static uint32_t limit (lua_State *L, const char *name, uint32_t def, uint32_t most) {
  int ok = 1;
  lua_Integer n = push_option(L, name) ? lua_tointegerx(L, -1, &ok) : (lua_Integer)def;
  lua_pop(L, 1);
  if (!ok || n < 0 || n > (lua_Integer)most) luaL_error(L, "%s must be an integer from 0 to %d", name, (int)most);
  return (uint32_t)n;
}

pl_asked lpl_asked (const char *method) {
  if (method && strcmp(method, "HEAD") == 0) return PL_ASKED_HEAD;
  return method && strcmp(method, "CONNECT") == 0 ? PL_ASKED_CONNECT : PL_ASKED_OTHER;
}

/* The head at s, of at most n bytes; base of the answers' position: i. */
static int parse (lua_State *L, pl_head *h, pl_asked asked, bool lower) {
  pl_frame f;
  size_t n;
  const char *s = luaL_checklstring(L, BYTES, &n);
  lua_Integer i = luaL_optinteger(L, FROM, 1);
  luaL_argcheck(L, i >= 1 && (lua_Unsigned)i <= n + 1, FROM, "position out of range");
  s += i - 1;
  h->simd = lua_touserdata(L, lua_upvalueindex(UP_SIMD));
  switch (pl_head_step(h, s, n - (size_t)i + 1)) {
  case PL_MORE:
    lua_pushnil(L);
    lua_pushliteral(L, "incomplete");
    return 2;
  case PL_FAIL: return lpl_fail(L, h->err, h->err_at);
  default: break;
  }
  pl_err e = h->kind == PL_REQUEST ? pl_frame_request(h, s, &f) : pl_frame_response(h, s, asked, &f);
  if (e) return lpl_fail(L, e, f.err_at);
  lpl_push_message(L, lua_upvalueindex(UP_SHARED), h, &f, s, lower);
  lua_pushinteger(L, i + h->bytes);
  lpl_push_about(L, lua_upvalueindex(UP_SHARED), LPL_TOLD, h, &f);
  return 3;
}

static int parse_with_options (lua_State *L, pl_head_kind kind) {
  pl_head h;
  luaL_checktype(L, OPTIONS, LUA_TTABLE);
  lua_settop(L, OPTIONS);
  pl_head_limits max = {limit(L, "max_head", HEAD_BYTES, 1u << 30), limit(L, "max_fields", FIELDS, 100000),
                        limit(L, "max_target", TARGET_BYTES, 1u << 30)};
  push_option(L, "lower_names");
  bool lower = lua_toboolean(L, -1);
  push_option(L, "method");
  pl_asked asked = lpl_asked(lua_tostring(L, -1));
  pl_head_init(&h, kind, max, lpl_newuserdata(L, sizeof(pl_field) * (max.fields + 1), 0));
  return parse(L, &h, asked, lower);
}

static int parse_head (lua_State *L, pl_head_kind kind) {
  pl_field field[FIELDS];
  pl_head h;
  if (!lua_isnoneornil(L, OPTIONS)) return parse_with_options(L, kind);
  pl_head_init(&h, kind, (pl_head_limits){HEAD_BYTES, FIELDS, TARGET_BYTES}, field);
  return parse(L, &h, PL_ASKED_OTHER, false);
}

/* push.parse_request(s [, i [, options]]): request, index behind its head, about | nil, "incomplete" | nil, message,
   code. options: max_head, max_fields, max_target, lower_names. RFC 9112 2 to 6. */
static int parse_request (lua_State *L) { return parse_head(L, PL_REQUEST); }

/* push.parse_response: likewise; options.method: of the request it answers */
static int parse_response (lua_State *L) { return parse_head(L, PL_RESPONSE); }

void lpl_set_parse (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"parse_request", parse_request}, {"parse_response", parse_response}, {NULL, NULL}};
  lpl_push_shared(L);
  lua_pushlightuserdata(L, (void *)lpl_simd());
  luaL_setfuncs(L, functions, 2);
}
