/* Small pure functions: errors by code, the size line of a chunk, checks of what is about to be sent. */
#include "lpl.h"
#include "lpl_date.h"
#include "pl_char.h"
#include "pl_simd.h"

/* text.errors(): { [code] = { status =, text = } } */
static int errors (lua_State *L) {
  lua_createtable(L, 0, PL_ERR_COUNT);
  for (int e = PL_OK + 1; e < PL_ERR_COUNT; e++) {
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, pl_err_status((pl_err)e));
    lua_setfield(L, -2, "status");
    lua_pushstring(L, pl_err_text((pl_err)e));
    lua_setfield(L, -2, "text");
    lua_setfield(L, -2, pl_err_code((pl_err)e));
  }
  return 1;
}

/* text.raise(message, code): raises the error object that iterators raise */
static int raise (lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  return lpl_raise(L);
}

/* text.chunk_line(n): the size line of a chunk of n > 0 bytes (RFC 9112 7.1) */
static int chunk_line (lua_State *L) {
  char out[PL_CHUNK_LINE_MAX];
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n > 0, 1, "an empty chunk would end the body");
  lua_pushlstring(L, out, pl_chunk_line((uint64_t)n, out));
  return 1;
}

static int all_of (lua_State *L, int class_bits, bool empty_too) {
  pl_slice s;
  s.p = luaL_checklstring(L, 1, &s.n);
  lua_pushboolean(L, (s.n > 0 || empty_too) && pl_span(s, class_bits) == s.n);
  return 1;
}

/* text.is_token(s): RFC 9110 5.6.2; text.is_value(s): a field value on one line; text.is_target(s): request target */
static int is_token (lua_State *L) { return all_of(L, PL_TCHAR, false); }
static int is_value (lua_State *L) { return all_of(L, PL_VALUE, true); }
static int is_target (lua_State *L) { return all_of(L, PL_TARGET, false); }

/* text.is_trailer(name): may a trailer section carry this field? (RFC 9110 6.5.1) */
static int is_trailer (lua_State *L) {
  pl_slice s;
  s.p = luaL_checklstring(L, 1, &s.n);
  lua_pushboolean(L, pl_trailer_allowed(s));
  return 1;
}

/* text.simd(): the name of the vector set in use */
static int simd (lua_State *L) {
  lua_pushstring(L, lpl_simd()->name);
  return 1;
}

int lpl_open_text (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"errors", errors},     {"raise", raise},       {"chunk_line", chunk_line},
      {"is_token", is_token}, {"is_value", is_value}, {"is_target", is_target},
      {"is_trailer", is_trailer}, {"simd", simd}, {NULL, NULL},
  };
  luaL_newlib(L, functions);
  lpl_push_date_line(L); /* text.date_line(): the Date field line of this second */
  lua_setfield(L, -2, "date_line");
  return 1;
}
