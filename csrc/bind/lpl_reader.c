/* The Reader class: its life, and how its failures are told. */
#include <stdio.h>

#include "lpl_copy.h"
#include "lpl_reader.h"
#include "lpl_source.h"

/* ---- life ---- */

lpl_reader *lpl_checkreader (lua_State *L, int idx) { return luaL_checkudata(L, idx, LPL_READER); }

/* As io's own close does for a plain file: the handle counts as closed from then on. */
static void close_file (luaL_Stream *f) {
  if (f->closef == NULL) return;
  f->closef = NULL;
  fclose(f->f);
}

/* Whoever waits for the end of the bytes is told once, whether all were read. */
static void tell_done (lua_State *L, lpl_reader *r, bool ended) {
  r->done = false;
  lpl_getuv(L, 1, LPL_UV_DONE);
  lua_pushboolean(L, ended);
  lua_callk(L, 1, 0, 0, NULL);
}

static int reader_close (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  if (r->src == &lpl_from_file && !r->closed && r->u.file.own) close_file(r->u.file.stream);
  if (r->src == &lpl_from_chunked) {
    pl_buf_free(&r->u.chunked.trailer);
    r->u.chunked.head.nfields = 0;
  }
  bool ended = r->ended && pl_buf_len(&r->q) == 0;
  pl_buf_free(&r->q);
  r->closed = true;
  r->closes++;
  if (r->done) tell_done(L, r, ended);
  lua_pushboolean(L, 1);
  return 1;
}

static int reader_gc (lua_State *L) {
  lpl_checkreader(L, 1)->finalised = true;
  return reader_close(L);
}

static int reader_tostring (lua_State *L) {
  lpl_reader *r = lpl_checkreader(L, 1);
  const char *state = r->closed ? "closed" : r->err ? pl_err_code(r->err) : r->ended ? "ended" : "open";
  lua_pushfstring(L, "reader (%s, %s): %p", r->src ? r->src->name : "none", state, (void *)r);
  return 1;
}

/* ---- failures ---- */

/* A timeout is told once: the next read may try again. */
static void forget_timeout (lpl_reader *r) {
  for (; r; r = r->up) {
    if (r->err != PL_E_TIMEOUT) continue;
    r->err = PL_OK;
    r->late = true;
  }
}

static int source_message (lua_State *L, int idx) {
  lua_pushvalue(L, idx);
  for (lpl_reader *r = lua_touserdata(L, -1); r->up != NULL; r = r->up) {
    lpl_getuv(L, -1, LPL_UV_UP);
    if (lua_touserdata(L, -1) != r->up) {
      lpl_getuv(L, -1, LPL_UV_UP);
      lua_remove(L, -2);
    }
    lua_remove(L, -2);
  }
  lua_pushnil(L);
  lpl_getuv(L, -2, LPL_UV_MESSAGE);
  lpl_getuv(L, -3, LPL_UV_CODE);
  return 3;
}

int lpl_reader_fail (lua_State *L, int idx) {
  lpl_reader *r = lua_touserdata(L, idx);
  pl_err e = r->closed ? PL_E_CLOSED : r->err;
  if (e == PL_E_SOURCE) return source_message(L, idx);
  if (e == PL_E_READ_FAILED) return lpl_fail_errno(L, e, r->os_error);
  if (e == PL_E_TIMEOUT) forget_timeout(r);
  return lpl_fail(L, e, e == PL_E_CLOSED ? LPL_NOWHERE : r->err_at);
}

/* ---- the class ---- */

static void new_class (lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", reader_gc}, {"__close", reader_close}, {"__tostring", reader_tostring}, {NULL, NULL}};
  luaL_newmetatable(L, LPL_READER);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  lpl_set_reads(L);
  lpl_set_state(L);
  lua_pushcfunction(L, reader_close);
  lua_setfield(L, -2, "close");
  lua_getfield(L, -1, "length");
  lua_setfield(L, -3, "__len");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

int lpl_open_reader (lua_State *L) {
  new_class(L);
  lpl_copy_open(L);
  lua_newtable(L);
  lpl_set_readers(L);
  return 1;
}
