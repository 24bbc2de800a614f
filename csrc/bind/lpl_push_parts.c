/* Push parser of multipart bodies: its steps, and where the content of a part goes. */
#include "lpl_push.h"

static void no_sink (lua_State *L) {
  for (int i = UV_WRITE; i <= UV_END; i++) {
    lua_pushnil(L);
    lpl_setuv(L, SELF, i);
  }
}

/* Pushes a function of the sink, and the object it is a method of; the number of arguments so far, or AGAIN. */
static int push_sink (lua_State *L, int which) {
  if (!lpl_push_callback(L, which)) return AGAIN;
  return lpl_push_callback(L, UV_OBJECT) ? 1 : 0;
}

static int tell_content (lua_State *L, pl_slice piece) {
  int nargs = push_sink(L, UV_WRITE);
  if (nargs == AGAIN) return AGAIN;
  lpl_push_piece(L, piece);
  return nargs + 1;
}

static int part_end (lua_State *L, lpl_push *p) {
  if (p->coding == CODED) return lpl_push_fail(p, PL_E_UNEXPECTED_EOF, p->chunk.at);
  int nargs = push_sink(L, UV_END);
  if (nargs == 0) {
    lua_pushnil(L); /* a function is told by nil */
    nargs = 1;
  }
  no_sink(L);
  return nargs;
}

static int nothing (lua_State *L) {
  (void)L;
  return 0;
}

static int part_begin (lua_State *L, lpl_push *p, const char *base) {
  p->coding = PLAIN;
  no_sink(L);
  if (!lpl_push_callback(L, UV_PART)) lua_pushcfunction(L, nothing); /* its content may be coded all the same */
  if (lpl_push_part(L, &p->head, base, p->mpart.is_form)) {
    p->coding = CODED;
    pl_buf_skip(&p->part.kept, pl_buf_len(&p->part.kept));
    pl_head_reset(&p->trailer);
    pl_chunk_init(&p->chunk, p->chunk.max, true, &p->trailer);
  }
  lua_getfield(L, -1, "name");
  lua_insert(L, -2);
  lpl_push_fields(L, SHARED, &p->head, base, p->lower);
  lua_insert(L, -2);
  lpl_getuv(L, SELF, UV_INTO);
  return 4;
}

/* Content of the live part in chunked coding; s: what is ahead of it. */
static int coded_step (lua_State *L, lpl_push *p, pl_slice s) {
  pl_slice ahead, data;
  size_t used;
  p->part.p = s.p;
  p->part.n = s.n;
  p->part.at = 0;
  if (!lpl_look(&p->part, &ahead)) return lpl_push_no_memory(p);
  pl_got got = pl_chunk_step(&p->chunk, ahead.p, ahead.n, &used, &data);
  if (got == PL_FAIL) return lpl_push_fail(p, p->chunk.err, p->chunk.err_at);
  if (!lpl_settle(&p->part, used, got == PL_MORE && used < ahead.n)) return lpl_push_no_memory(p);
  lpl_settle(&p->in, p->part.at, false);
  p->safe -= p->part.at;
  if (got == PL_END) p->coding = CODED_OVER;
  return got == PL_DATA ? tell_content(L, data) : AGAIN;
}

static int content_step (lua_State *L, lpl_push *p) {
  pl_slice s;
  if (!lpl_look(&p->in, &s)) return lpl_push_no_memory(p);
  if (s.n == 0) return lpl_push_lack(p, p->mpart.at);
  if (s.n > p->safe) s.n = p->safe;
  if (p->coding == CODED) return coded_step(L, p, s);
  p->safe -= s.n;
  lpl_settle(&p->in, s.n, false);
  return p->coding == PLAIN ? tell_content(L, s) : AGAIN;
}

int lpl_parts_step (lua_State *L, lpl_push *p) {
  pl_slice s, data;
  size_t used;
  if (p->safe > 0) return content_step(L, p);
  if (!lpl_look(&p->in, &s)) return lpl_push_no_memory(p);
  pl_got got = pl_mpart_step(&p->mpart, s.p, s.n, p->eof, &used, &data);
  if (got == PL_FAIL) return lpl_push_fail(p, p->mpart.err, p->mpart.err_at);
  if (got == PL_DATA) p->safe = data.n;
  if (got == PL_DATA) used -= data.n;
  if (!lpl_settle(&p->in, used, got == PL_MORE && used < s.n)) return lpl_push_no_memory(p);
  if (got == PL_PART) return part_begin(L, p, data.p);
  if (got == PL_PART_END) return part_end(L, p);
  if (got == PL_MORE) return lpl_push_lack(p, p->mpart.at);
  if (got == PL_END) p->state = FINISH;
  return AGAIN;
}

/* into(sink): where the content of the live part goes: a function, called with each piece and with nil at the end, or
   an object with write and perhaps finish. */
int lpl_parts_into (lua_State *L) {
  bool object = lua_type(L, 1) != LUA_TFUNCTION;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  luaL_argcheck(L, !object || lua_istable(L, 1) || lua_isuserdata(L, 1), 1, "function or object with write expected");
  if (object) lua_getfield(L, 1, "write");
  else lua_pushvalue(L, 1);
  luaL_argcheck(L, !lua_isnil(L, 3), 1, "function or object with write expected");
  lpl_setuv(L, 2, UV_WRITE);
  if (object) lua_getfield(L, 1, "finish");
  else lua_pushvalue(L, 1);
  lpl_setuv(L, 2, UV_END);
  if (object) lua_pushvalue(L, 1);
  else lua_pushnil(L);
  lpl_setuv(L, 2, UV_OBJECT);
  return 0;
}
