/* Push parsers: bytes are fed, callbacks are called. The steps are those of the Reader (pl_head, pl_framing, pl_chunk,
   pl_mpart); this file keeps what they want to see again, and calls. A callback is called through lua_callk: it may
   yield. The parser is ahead of what it tells: when a callback runs, all that led to the call counts as fed.

   Memory: what the Lua string of a feed holds is used where it lies; only the unfinished end of it, a head, a trailer
   section or a delimiter, is kept for the next feed. */
#include <string.h>

#include "lpl_push.h"

#define PUSH "partline.push"

enum { TRAILER_FIELDS = 100 };

/* ---- answers ---- */

int lpl_push_fail (lpl_push *p, pl_err e, uint64_t at) {
  p->state = FAILED;
  p->err = e;
  p->err_at = at;
  return STOP;
}

int lpl_push_lack (lpl_push *p, uint64_t at) {
  if (!lpl_exhausted(&p->in)) return AGAIN;
  return p->eof ? lpl_push_fail(p, PL_E_UNEXPECTED_EOF, at) : STOP;
}

bool lpl_push_callback (lua_State *L, int which) {
  lpl_getuv(L, SELF, which);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

/* A piece that is the whole input is the string that was fed. */
void lpl_push_piece (lua_State *L, pl_slice s) {
  size_t n;
  const char *input = lua_tolstring(L, INPUT, &n);
  if (s.p == input && s.n == n) lua_pushvalue(L, INPUT);
  else lua_pushlstring(L, s.p, s.n);
}

/* ---- messages ---- */

static int tell_body (lua_State *L, lpl_push *p, pl_slice piece) {
  p->body += piece.n;
  if (p->body > p->max_body) return lpl_push_fail(p, PL_E_BODY_TOO_LARGE, p->max_body);
  if (!lpl_push_callback(L, UV_BODY)) return AGAIN;
  lpl_push_piece(L, piece);
  return 1;
}

static void begin (lpl_push *p) {
  p->state = HEAD;
  pl_head_reset(&p->head);
}

/* What follows the head, and which of the callbacks is told. */
static int after_head (lpl_push *p) {
  static const state next[] = {FINISH, LENGTH, CHUNKED, CLOSE};
  const pl_head *h = &p->head;
  bool response = h->kind == PL_RESPONSE;
  p->state = next[p->frame.body];
  p->left = p->frame.length;
  if (p->state == LENGTH && p->left == 0) p->state = FINISH;
  p->body = 0;
  p->after = response && p->frame.upgrade ? UPGRADED : OVER;
  if (response && h->status < 200 && h->status != 101) {
    p->state = HEAD;
    return UV_INTERIM;
  }
  if (p->state != CHUNKED) return UV_HEAD;
  pl_head_reset(&p->trailer);
  pl_chunk_init(&p->chunk, p->chunk.max, response, &p->trailer);
  return UV_HEAD;
}

static int head_complete (lua_State *L, lpl_push *p, pl_slice s) {
  pl_head *h = &p->head;
  pl_frame *f = &p->frame;
  pl_err e = h->kind == PL_REQUEST ? pl_frame_request(h, s.p, f) : pl_frame_response(h, s.p, p->asked, f);
  if (e) return lpl_push_fail(p, e, f->err_at);
  if (f->body == PL_BODY_LENGTH && f->length > p->max_body) return lpl_push_fail(p, PL_E_BODY_TOO_LARGE, h->bytes);
  int which = after_head(p), nargs = AGAIN;
  lpl_settle(&p->in, h->bytes, false);
  if (lpl_push_callback(L, which)) {
    lpl_push_message(L, SHARED, h, f, s.p, p->lower);
    lpl_push_about(L, SHARED, LPL_TOLD, h, f);
    nargs = 2;
  }
  if (p->state == HEAD) pl_head_reset(h);
  return nargs;
}

static int head_step (lua_State *L, lpl_push *p) {
  pl_slice s;
  if (!lpl_look(&p->in, &s)) return lpl_push_no_memory(p);
  switch (pl_head_step(&p->head, s.p, s.n)) {
  case PL_END: return head_complete(L, p, s);
  case PL_FAIL: return lpl_push_fail(p, p->head.err, p->head.err_at);
  default: break;
  }
  if (p->eof && lpl_exhausted(&p->in) && pl_head_idle(&p->head, s.p, s.n)) {
    pl_buf_skip(&p->in.kept, pl_buf_len(&p->in.kept)); /* at most a CR */
    begin(p);
    return STOP;
  }
  if (!lpl_settle(&p->in, 0, true)) return lpl_push_no_memory(p);
  return lpl_push_lack(p, s.n);
}

static int length_step (lua_State *L, lpl_push *p) {
  pl_slice s;
  lpl_look(&p->in, &s);
  if (s.n == 0) return lpl_push_lack(p, p->body);
  if (s.n > p->left) s.n = (size_t)p->left;
  p->left -= s.n;
  if (p->left == 0) p->state = FINISH;
  lpl_settle(&p->in, s.n, false);
  return tell_body(L, p, s);
}

static int close_step (lua_State *L, lpl_push *p) {
  pl_slice s;
  lpl_look(&p->in, &s);
  if (s.n > 0) {
    lpl_settle(&p->in, s.n, false);
    return tell_body(L, p, s);
  }
  if (!p->eof) return STOP;
  p->state = FINISH;
  return AGAIN;
}

/* Trailers that may be told (RFC 9110 6.5.1). */
static uint32_t keep_allowed (pl_head *h, const char *base) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < h->nfields; i++)
    if (pl_trailer_allowed(pl_name(&h->field[i], base))) h->field[kept++] = h->field[i];
  return h->nfields = kept;
}

static int chunked_step (lua_State *L, lpl_push *p) {
  pl_slice s, data;
  size_t used;
  if (!lpl_look(&p->in, &s)) return lpl_push_no_memory(p);
  switch (pl_chunk_step(&p->chunk, s.p, s.n, &used, &data)) {
  case PL_FAIL: return lpl_push_fail(p, p->chunk.err, p->chunk.err_at);
  case PL_DATA:
    lpl_settle(&p->in, used, false);
    return tell_body(L, p, data);
  case PL_END:
    lpl_settle(&p->in, used, false);
    p->state = FINISH;
    if (keep_allowed(&p->trailer, data.p) == 0 || !lpl_push_callback(L, UV_TRAILERS)) return AGAIN;
    lpl_push_fields(L, SHARED, &p->trailer, data.p, p->lower);
    return 1;
  default: break;
  }
  if (!lpl_settle(&p->in, used, used < s.n)) return lpl_push_no_memory(p);
  return lpl_push_lack(p, p->chunk.at + (s.n - used));
}

static int finish_step (lua_State *L, lpl_push *p) {
  p->state = p->after;
  return lpl_push_callback(L, UV_FINISH) ? 0 : AGAIN;
}

/* ---- the loop ---- */

static int step (lua_State *L, lpl_push *p) {
  switch (p->state) {
  case HEAD: return head_step(L, p);
  case LENGTH: return length_step(L, p);
  case CHUNKED: return chunked_step(L, p);
  case CLOSE: return close_step(L, p);
  case PARTS: return lpl_parts_step(L, p);
  case FINISH: return finish_step(L, p);
  case OVER: begin(p); return STOP;
  case EPILOGUE: p->in.at = p->in.n; return STOP;
  default: return STOP;
  }
}

/* The three results of a callback: "pause"; nil or false with a message is a failure; all others mean nothing. */
static void take_answer (lua_State *L, lpl_push *p) {
  if (lua_type(L, -3) == LUA_TSTRING && strcmp(lua_tostring(L, -3), "pause") == 0) {
    p->paused = true;
  } else if (!lua_toboolean(L, -3) && !lua_isnil(L, -2)) {
    lpl_push_fail(p, PL_OK, 0);
    luaL_tolstring(L, -2, NULL);
    lpl_setuv(L, SELF, UV_MESSAGE);
    if (lua_type(L, -1) == LUA_TSTRING) lua_pushvalue(L, -1);
    else lua_pushstring(L, pl_err_code(PL_E_WRITE_FAILED));
    lpl_setuv(L, SELF, UV_CODE);
  }
  lua_settop(L, INPUT);
}

static int push_failure (lua_State *L, const lpl_push *p) {
  if (p->err) return lpl_fail(L, p->err, p->err_at);
  lua_pushnil(L);
  lpl_getuv(L, SELF, UV_MESSAGE);
  lpl_getuv(L, SELF, UV_CODE);
  return 3;
}

static void release (lpl_push *p) {
  pl_buf_free(&p->in.kept);
  pl_buf_free(&p->part.kept);
}

static int leave (lua_State *L, lpl_push *p) {
  p->busy = false;
  if (p->closed || p->state == FAILED || pl_buf_len(&p->in.kept) + pl_buf_len(&p->part.kept) == 0) release(p);
  if (p->state == FAILED) return push_failure(L, p);
  if (p->eof) lua_pushboolean(L, !p->paused);
  else lua_pushinteger(L, (lua_Integer)p->in.at);
  return 1;
}

static int run_k (lua_State *L, int status, lua_KContext ctx) {
  lpl_push *p = lua_touserdata(L, SELF);
  (void)status;
  if (ctx) take_answer(L, p);
  while (!p->closed && !p->paused) {
    int nargs = step(L, p);
    if (nargs == STOP) break;
    if (nargs == AGAIN) continue;
    lua_callk(L, nargs, 3, 1, run_k);
    take_answer(L, p);
  }
  return leave(L, p);
}

/* Input at INPUT: n bytes at s. */
static int run (lua_State *L, lpl_push *p, const char *s, size_t n, bool eof) {
  if (p->busy) return luaL_error(L, "a callback of this parser has not returned: it is running, or has raised");
  if (p->closed) return lpl_fail(L, PL_E_CLOSED, LPL_NOWHERE);
  if (p->state == FAILED) return push_failure(L, p);
  if (p->state == UPGRADED && n > 0) return lpl_fail(L, PL_E_UPGRADED, LPL_NOWHERE);
  luaL_checkstack(L, 24, NULL);
  if (p->state == OVER) begin(p);
  p->in.p = s;
  p->in.n = n;
  p->in.at = 0;
  p->eof = eof;
  p->paused = false;
  p->busy = true;
  return run_k(L, LUA_OK, 0);
}

/* ---- methods ---- */

/* As string.sub counts: from the end when negative. */
static size_t position (lua_State *L, int arg, lua_Integer def, size_t n) {
  lua_Integer i = luaL_optinteger(L, arg, def);
  if (i < 0) i = -(lua_Unsigned)i > n ? 0 : (lua_Integer)n + i + 1;
  return (lua_Unsigned)i > n + 1 ? n + 1 : (size_t)i;
}

/* p:feed(bytes [, i [, j]]): bytes used | nil, message, code. May yield where a callback does. */
static int push_feed (lua_State *L) {
  lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  size_t n;
  const char *s = luaL_checklstring(L, INPUT, &n);
  size_t i = position(L, 3, 1, n), j = position(L, 4, -1, n);
  if (i == 0) i = 1;
  if (j > n) j = n;
  lua_settop(L, INPUT);
  return run(L, p, s + i - 1, j < i ? 0 : j - i + 1, false);
}

/* p:finish(): true, or false when a callback paused | nil, message, code */
static int push_finish (lua_State *L) {
  lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  lua_settop(L, SELF);
  lua_pushliteral(L, "");
  return run(L, p, lua_tostring(L, INPUT), 0, true);
}

static int push_close (lua_State *L) {
  lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  p->closed = true;
  if (!p->busy) release(p);
  lua_pushboolean(L, 1);
  return 1;
}

static int push_gc (lua_State *L) {
  lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  p->closed = true;
  release(p);
  return 0;
}

/* p:method(m): of the request that the responses from now on answer */
static int push_method (lua_State *L) {
  lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  p->asked = lpl_asked(luaL_optstring(L, 2, NULL));
  lua_settop(L, SELF);
  return 1;
}

static int push_tostring (lua_State *L) {
  const lpl_push *p = luaL_checkudata(L, SELF, PUSH);
  const char *kind = p->parts ? "multipart" : p->head.kind == PL_REQUEST ? "request" : "response";
  const char *how = p->closed ? "closed" : p->busy ? "busy" : p->state == FAILED ? "failed" : "open";
  lua_pushfstring(L, "parser (%s, %s): %p", kind, how, (const void *)p);
  return 1;
}

/* ---- constructors ---- */

/* A parser on the top of the stack, harmless; fields: of a head, extra: bytes behind all fields. */
static lpl_push *new_parser (lua_State *L, pl_head_kind kind, pl_head_limits max, size_t extra) {
  size_t fields = max.fields > TRAILER_FIELDS ? max.fields : TRAILER_FIELDS;
  lpl_push *p = lpl_newuserdata(L, sizeof *p + sizeof(pl_field) * fields + extra, UV_COUNT);
  memset(p, 0, sizeof *p);
  void *ud;
  pl_alloc alloc = lua_getallocf(L, &ud);
  pl_buf_init(&p->in.kept, alloc, ud, 0);
  pl_buf_init(&p->part.kept, alloc, ud, 0);
  pl_head_init(&p->head, kind, max, p->field);
  p->head.simd = lpl_simd();
  luaL_setmetatable(L, PUSH);
  return p;
}

/* Limits of what may follow a head; the table is at idx. */
static void set_limits (lua_State *L, int idx, lpl_push *p) {
  pl_head_limits trailer = {.bytes = lpl_limit(L, idx, "trailer", 16 * 1024), .fields = TRAILER_FIELDS};
  p->chunk.max.line = lpl_limit(L, idx, "chunk_line", 4 * 1024);
  p->chunk.max.ext = lpl_limit(L, idx, "chunk_ext", 16 * 1024);
  pl_head_init(&p->trailer, PL_TRAILER, trailer, p->field);
  p->trailer.simd = p->head.simd;
  p->max_body = UINT64_MAX;
  if (lua_isnoneornil(L, idx)) return;
  if (lua_getfield(L, idx, "body") != LUA_TNIL) p->max_body = (uint64_t)luaL_checkinteger(L, -1);
  lua_getfield(L, idx, "lower");
  p->lower = lua_toboolean(L, -1);
  lua_pop(L, 2);
}

/* push.message("request" | "response", limits, method, on_head, on_interim, on_body, on_trailers, on_finish): a parser.
   limits: head, fields, target, chunk_line, chunk_ext, trailer, body; lower: names in lower case */
static int new_message (lua_State *L) {
  static const char *const roles[] = {"request", "response", NULL};
  enum { LIMITS = 2, METHOD, CALLBACKS };
  pl_head_kind kind = luaL_checkoption(L, 1, NULL, roles) == 0 ? PL_REQUEST : PL_RESPONSE;
  pl_head_limits max = {lpl_limit(L, LIMITS, "head", 16 * 1024), lpl_limit(L, LIMITS, "fields", 100),
                        lpl_limit(L, LIMITS, "target", 8 * 1024)};
  luaL_argcheck(L, max.fields <= 100000, LIMITS, "limit 'fields' out of range");
  lua_settop(L, CALLBACKS + UV_CALLBACKS - 1);
  lpl_push *p = new_parser(L, kind, max, 0);
  set_limits(L, LIMITS, p);
  p->asked = lpl_asked(lua_tostring(L, METHOD));
  for (int i = UV_HEAD; i <= UV_CALLBACKS; i++) {
    lua_pushvalue(L, CALLBACKS + i - UV_HEAD);
    lpl_setuv(L, -2, i);
  }
  return 1;
}

/* push.multipart(boundary, is_form, limits, on_part, on_finish): a parser. limits: parts, part_head, part_fields and
   those of chunked content */
static int new_multipart (lua_State *L) {
  enum { BOUNDARY = 1, IS_FORM, LIMITS, ON_PART, ON_FINISH };
  pl_slice b;
  b.p = luaL_checklstring(L, BOUNDARY, &b.n);
  pl_head_limits max = {.bytes = lpl_limit(L, LIMITS, "part_head", 16 * 1024),
                        .fields = lpl_limit(L, LIMITS, "part_fields", 16)};
  luaL_argcheck(L, max.fields <= 10000, LIMITS, "limit 'part_fields' out of range");
  lua_settop(L, ON_FINISH);
  lpl_push *p = new_parser(L, PL_PART_HEAD, max, b.n + PL_DELIMITER_EXTRA);
  size_t fields = max.fields > TRAILER_FIELDS ? max.fields : TRAILER_FIELDS;
  pl_mpart_limits parts = {lpl_limit(L, LIMITS, "parts", 1000)};
  pl_mpart_init(&p->mpart, b, lua_toboolean(L, IS_FORM), parts, (char *)&p->field[fields], &p->head);
  p->mpart.simd = p->head.simd;
  set_limits(L, LIMITS, p);
  p->parts = true;
  p->state = PARTS;
  p->after = EPILOGUE;
  lua_pushvalue(L, ON_PART);
  lpl_setuv(L, -2, UV_PART);
  lua_pushvalue(L, ON_FINISH);
  lpl_setuv(L, -2, UV_FINISH);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, lpl_parts_into, 1);
  lpl_setuv(L, -2, UV_INTO);
  return 1;
}

int lpl_open_push (lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", push_gc}, {"__close", push_close}, {"__tostring", push_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"feed", push_feed}, {"finish", push_finish}, {"close", push_close}, {"method", push_method}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"message", new_message}, {"multipart", new_multipart}, {NULL, NULL}};
  luaL_newmetatable(L, PUSH);
  luaL_setfuncs(L, meta, 0);
  luaL_newlibtable(L, methods);
  lpl_push_shared(L);
  luaL_setfuncs(L, methods, 1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  lpl_set_parse(L);
  return 1;
}
