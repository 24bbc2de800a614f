/* Errors as Lua values, user values under Lua 5.3, limits from tables. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lpl.h"
#include "pl_simd.h"

#define ERROR_OBJECT "partline.error"

void *lpl_newuserdata (lua_State *L, size_t size, int nuvalue) {
#if LUA_VERSION_NUM >= 504
  return lua_newuserdatauv(L, size, nuvalue);
#else
  void *u = lua_newuserdata(L, size);
  lua_createtable(L, nuvalue, 0);
  lua_setuservalue(L, -2);
  return u;
#endif
}

void lpl_getuv (lua_State *L, int idx, int n) {
#if LUA_VERSION_NUM >= 504
  lua_getiuservalue(L, idx, n);
#else
  lua_getuservalue(L, idx);
  lua_rawgeti(L, -1, n);
  lua_remove(L, -2);
#endif
}

void lpl_setuv (lua_State *L, int idx, int n) {
  idx = lua_absindex(L, idx);
#if LUA_VERSION_NUM >= 504
  lua_setiuservalue(L, idx, n);
#else
  lua_getuservalue(L, idx);
  lua_insert(L, -2);
  lua_rawseti(L, -2, n);
  lua_pop(L, 1);
#endif
}

double lpl_now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int lpl_fail (lua_State *L, pl_err e, uint64_t at) {
  lua_pushnil(L);
  if (at == LPL_NOWHERE) lua_pushstring(L, pl_err_text(e));
  else lua_pushfstring(L, "%s (byte %I)", pl_err_text(e), (LUAI_UACINT)at);
  lua_pushstring(L, pl_err_code(e));
  return 3;
}

int lpl_fail_errno (lua_State *L, pl_err e, int errnum) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", pl_err_text(e), strerror(errnum));
  lua_pushstring(L, pl_err_code(e));
  return 3;
}

static int status_of (const char *code) {
  for (int e = PL_OK + 1; code && e < PL_ERR_COUNT; e++)
    if (strcmp(code, pl_err_code((pl_err)e)) == 0) return pl_err_status((pl_err)e);
  return 500;
}

static int error_tostring (lua_State *L) {
  lua_getfield(L, 1, "message");
  return 1;
}

int lpl_raise (lua_State *L) {
  const char *code = lua_tostring(L, -1);
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, status_of(code));
  lua_setfield(L, -2, "status");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "code");
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "message");
  if (luaL_newmetatable(L, ERROR_OBJECT)) {
    lua_pushcfunction(L, error_tostring);
    lua_setfield(L, -2, "__tostring");
  }
  lua_setmetatable(L, -2);
  return lua_error(L);
}

const pl_simd *lpl_simd (void) {
  const char *name = getenv("PARTLINE_SIMD");
  if (name == NULL || *name == 0) return pl_simd_best();
  const pl_simd *set = pl_simd_named(strcmp(name, "off") == 0 ? "portable" : name);
  return set ? set : pl_simd_best();
}

uint32_t lpl_limit (lua_State *L, int idx, const char *name, uint32_t def) {
  if (lua_isnoneornil(L, idx)) return def;
  lua_getfield(L, idx, name);
  lua_Integer v = def;
  if (!lua_isnil(L, -1)) {
    int ok;
    v = lua_tointegerx(L, -1, &ok);
    if (!ok || v < 0 || v > UINT32_MAX) luaL_error(L, "limit '%s' must be a non-negative integer of 32 bits", name);
  }
  lua_pop(L, 1);
  return v < 1 << 30 ? (uint32_t)v : 1u << 30;
}
