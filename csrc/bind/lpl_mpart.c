/* The iterator of parts: a scanner over a body's Reader, and the Reader of each part's content. One part is live: moving
   on skips the rest of it. */
#include <string.h>

#include "lpl.h"
#include "lpl_message.h"
#include "lpl_source.h"

#define PARTS "partline.parts"

enum { UV_BODY = 1, UV_CALL, PARTS_UV_COUNT = UV_CALL };

typedef struct lpl_parts {
  pl_mpart m;
  pl_head head;
  lpl_reader *body;    /* kept alive by UV_BODY */
  size_t safe;         /* bytes at the front of the body that are content of the live part */
  uint64_t generation; /* number of the live part */
  bool open;           /* the live part's delimiter has not been read yet */
  bool eof;            /* the body's last bytes are in sight */
  bool delimited;      /* the scanner has just used a delimiter: perhaps it needs no more bytes to see the end */
  bool exclusive;      /* the body is a request's: whoever touches it first owns it */
  bool closed;
  pl_err err;          /* of the body or of the scanner */
  uint64_t err_at;
  pl_field field[1];   /* head.max.fields of them, and behind them the delimiter */
} lpl_parts;

static pl_got failed (lpl_parts *p, pl_err e, uint64_t at) {
  p->err = e;
  p->err_at = at;
  return PL_FAIL;
}

/* The body's failure; a timeout may pass. */
static pl_got body_failed (lpl_parts *p) {
  failed(p, p->body->err, p->body->err_at);
  if (p->err == PL_E_TIMEOUT) p->err = PL_OK;
  return PL_FAIL;
}

/* Drops what the last step used, but for content, which stays ahead. */
static void settle (lpl_parts *p, pl_got got, size_t used, pl_slice data) {
  if (got == PL_DATA) {
    p->safe = data.n;
    used -= data.n;
  }
  if (got != PL_PART) lpl_skip(p->body, used);
  if (got == PL_PART_END) p->open = false;
  p->delimited = got == PL_PART_END || got == PL_END;
}

/* The scanner's next answer; for PL_PART the head is still ahead, behind *used - data->n other bytes. PL_MORE: the body
   has to wait. */
static pl_got scan (lpl_parts *p, size_t *used, pl_slice *data) {
  for (;;) {
    pl_slice s = {"", 0};
    pl_got got = p->delimited ? PL_DATA : lpl_view(p->body, &s);
    if (got == PL_MORE) return got;
    if (got == PL_FAIL) return body_failed(p);
    if (got == PL_END) p->eof = true, s.n = 0;
    lpl_head_again(&p->head, s.n);
    got = pl_mpart_step(&p->m, s.p, s.n, p->eof, used, data);
    if (got == PL_FAIL) return failed(p, p->m.err, p->m.err_at);
    settle(p, got, *used, *data);
    if (got != PL_MORE) return got;
    if (*used == s.n) continue;
    got = lpl_extend(p->body, 0);
    if (got == PL_MORE) return got;
    if (got == PL_FAIL) return body_failed(p);
    if (got == PL_END) p->eof = true;
  }
}

/* ---- content of a part ---- */

static pl_got part_failed (lpl_reader *r, pl_err e, uint64_t at) {
  r->err = e;
  r->err_at = at;
  r->os_error = r->up->os_error;
  return PL_FAIL;
}

/* What was peeked at dies with the part too. */
static bool part_valid (lpl_reader *r) {
  lpl_parts *p = r->u.part.parts;
  if (p->generation == r->u.part.generation) return true;
  if (!r->err) part_failed(r, PL_E_STALE_PART, LPL_NOWHERE);
  return false;
}

static pl_got part_pull (lpl_reader *r, pl_slice *s) {
  lpl_parts *p = r->u.part.parts;
  size_t used;
  if (!part_valid(r)) return PL_FAIL;
  if (p->closed) return part_failed(r, PL_E_CLOSED, LPL_NOWHERE);
  if (p->safe == 0) {
    if (!p->open) return PL_END;
    if (p->err) return part_failed(r, p->err, p->err_at);
    pl_got got = scan(p, &used, s);
    if (got == PL_MORE) return got;
    if (got == PL_FAIL) return p->err ? part_failed(r, p->err, p->err_at) : part_failed(r, p->body->err, LPL_NOWHERE);
    if (got == PL_PART_END) return PL_END;
  }
  r->safe = p->safe;
  return lpl_pull_safe(r, s);
}

static void part_took (lpl_reader *r, size_t n) {
  lpl_parts *p = r->u.part.parts;
  lpl_took_safe(r, n);
  p->safe -= n;
}

static const lpl_source from_part = {"part", part_pull, part_took, NULL, NULL, part_valid};

/* The Reader of the live part's content; the iterator is at idx. */
static void push_content (lua_State *L, int idx, lpl_parts *p) {
  lpl_reader *r = lpl_newreader(L);
  lua_pushvalue(L, idx);
  lpl_setuv(L, -2, LPL_UV_UP);
  r->u.part.parts = p;
  r->u.part.generation = p->generation;
  lpl_put_over(L, r, p->body);
  r->src = &from_part;
}

/* ---- the table of a part ---- */

/* A decoded parameter as field key of the table below the top buffer. */
static void set_param (lua_State *L, const char *key, const pl_param *v, bool percent) {
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, v->value.n);
  luaL_pushresultsize(&b, pl_param_text(v, percent, out));
  lua_setfield(L, -2, key);
}

static void set_ext_param (lua_State *L, const char *key, const pl_param *v) {
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, 2 * v->value.n);
  size_t n = pl_param_ext(v->value, out);
  luaL_pushresultsize(&b, n == SIZE_MAX ? 0 : n);
  if (n == SIZE_MAX) lua_pop(L, 1);
  else lua_setfield(L, -2, key);
}

static void set_disposition (lua_State *L, const pl_disposition *d, bool form) {
  if (d->type.p == NULL) return;
  lua_pushlstring(L, d->type.p, d->type.n);
  lua_setfield(L, -2, "type");
  if (d->name.name.p) set_param(L, "name", &d->name, form);
  if (d->filename.name.p) set_param(L, "filename", &d->filename, form);
  if (d->filename_ext.name.p) set_ext_param(L, "filename*", &d->filename_ext);
}

/* 1*DIGIT, or nothing: the length a part claims cuts and extends nothing */
static void set_length (lua_State *L, pl_slice v) {
  lua_Integer n = 0;
  if (v.n == 0 || v.n > 18) return;
  for (size_t i = 0; i < v.n; i++) {
    if (v.p[i] < '0' || v.p[i] > '9') return;
    n = n * 10 + (v.p[i] - '0');
  }
  lua_pushinteger(L, n);
  lua_setfield(L, -2, "length");
}

/* fnl-http sends parts with a chunked coding of their own; nobody else does (RFC 7578 4.8 forbids it) */
static bool is_chunked (const pl_head *h, const char *base) {
  bool chunked = false;
  for (uint32_t i = 0; i < h->nfields; i++) {
    pl_slice v = pl_value(&h->field[i], base);
    if (h->field[i].id == PL_F_TRANSFER_ENCODING) chunked = PL_IS(v, "chunked");
  }
  return chunked;
}

bool lpl_push_part (lua_State *L, const pl_head *h, const char *base, bool form) {
  pl_disposition d = {0}; /* read again: the scanner's slices point into the body's memory */
  lua_createtable(L, 0, 8);
  for (uint32_t i = 0; i < h->nfields; i++) {
    const pl_field *f = &h->field[i];
    if (f->id == PL_F_CONTENT_LENGTH) set_length(L, pl_value(f, base));
    if (f->id == PL_F_CONTENT_DISPOSITION && d.type.p == NULL && pl_disposition_read(pl_value(f, base), &d) != PL_OK)
      memset(&d, 0, sizeof d); /* outside form-data only: does no harm */
  }
  set_disposition(L, &d, form);
  return is_chunked(h, base);
}

static void push_part (lua_State *L, int idx, lpl_parts *p, const char *base) {
  bool chunked = lpl_push_part(L, &p->head, base, p->m.is_form);
  lpl_push_headers(L, &p->head, base);
  lua_setfield(L, -2, "headers");
  push_content(L, idx, p);
  if (chunked) {
    lpl_push_chunked(L, -1, true);
    lua_remove(L, -2);
  }
  lua_setfield(L, -2, "content");
}

/* ---- the iterator: itself at 1 ---- */

/* Raises what failed last. */
static int raise (lua_State *L, const lpl_parts *p) {
  if (p->err == PL_OK || p->err == PL_E_SOURCE || p->err == PL_E_READ_FAILED) {
    lpl_getuv(L, 1, UV_BODY);
    lpl_reader_fail(L, lua_gettop(L));
  } else {
    lpl_fail(L, p->err, p->err_at);
  }
  return lpl_raise(L);
}

/* A new part: one answer, the table. Until it is made the iterator counts as failed: without memory the part would be
   lost unseen, and finalisers that run meanwhile must not move the scanner on. */
static int next_part (lua_State *L, lpl_parts *p, size_t used, pl_slice head) {
  failed(p, PL_E_NO_MEMORY, LPL_NOWHERE);
  lpl_skip(p->body, used);
  lua_pushlstring(L, head.p, head.n); /* skipped, but where they were until Lua runs */
  p->open = true;
  p->generation++;
  push_part(L, 1, p, lua_tostring(L, -1));
  p->err = PL_OK;
  return 1;
}

static int step (lua_State *L, lpl_parts *p) {
  if (p->closed) failed(p, PL_E_CLOSED, LPL_NOWHERE);
  if (p->err) return raise(L, p);
  for (;;) {
    size_t used;
    pl_slice data, ahead;
    while (p->safe > 0 && lpl_view(p->body, &ahead) == PL_DATA) { /* what nobody read of the live part */
      size_t n = ahead.n < p->safe ? ahead.n : p->safe;
      lpl_skip(p->body, n);
      p->safe -= n;
    }
    switch (scan(p, &used, &data)) {
    case PL_MORE: return LPL_WAIT;
    case PL_FAIL: return raise(L, p);
    case PL_PART: return next_part(L, p, used, data);
    case PL_END: lua_pushnil(L); return 1;
    default: break; /* content to skip; the end of a part */
    }
  }
}

static int step_k (lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  for (bool back = ctx != 0;; back = true) {
    if (back) {
      lpl_wait_end(L, 2);
      lua_settop(L, 2);
    }
    int n = step(L, lua_touserdata(L, 1));
    if (n != LPL_WAIT) return n;
    lua_callk(L, lpl_wait_begin(L, 2), LPL_WAIT_RESULTS, 1, step_k);
  }
}

static void claim (lpl_parts *p) {
  if (!p->exclusive) return;
  if (p->body->claim == LPL_DIRECT) failed(p, PL_E_BODY_IN_USE, LPL_NOWHERE);
  else p->body->claim = LPL_PARTS;
}

/* The closure of an iterator (upvalue 1: the scanner). parts(): the next part or nil; with an argument that is a table,
   as in request:parts(): the four values of a generic for. */
static int parts_call (lua_State *L) {
  bool method = lua_istable(L, 1) && lua_gettop(L) == 1;
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lpl_parts *p = lua_touserdata(L, 1);
  if (method) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushcclosure(L, parts_call, 1);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushvalue(L, 1);
    return 4;
  }
  lua_settop(L, 1);
  claim(p);
  p->generation++; /* whatever the step finds, the part before is over */
  lpl_getuv(L, 1, UV_BODY);
  luaL_checkstack(L, 24, NULL);
  return step_k(L, LUA_OK, 0);
}

/* Leaving early: what was not read of the body is its owner's again. */
static int parts_close (lua_State *L) {
  lpl_parts *p = luaL_checkudata(L, 1, PARTS);
  p->closed = true;
  return 0;
}

/* multipart.boundary(content_type [, max]): boundary, is form-data | nil, message, code. RFC 2046 5.1.1. */
static int boundary (lua_State *L) {
  pl_slice type, b;
  bool form;
  type.p = luaL_checklstring(L, 1, &type.n);
  pl_err e = pl_boundary_read(type, (size_t)luaL_optinteger(L, 2, 70), &b, &form);
  if (e) return lpl_fail(L, e, LPL_NOWHERE);
  lua_pushlstring(L, b.p, b.n);
  lua_pushboolean(L, form);
  return 2;
}

/* A scanner for the delimiter b on the top of the stack; limits at 4. */
static lpl_parts *new_scanner (lua_State *L, pl_slice b, bool form) {
  pl_mpart_limits max = {lpl_limit(L, 4, "parts", 1000)};
  pl_head_limits head = {
      .bytes = lpl_limit(L, 4, "part_head", 16 * 1024),
      .fields = lpl_limit(L, 4, "part_fields", 16),
  };
  if (head.fields > 10000) luaL_error(L, "limit 'part_fields' out of range");
  size_t fields = sizeof(pl_field) * head.fields;
  lpl_parts *p = lpl_newuserdata(L, sizeof *p + fields + b.n + PL_DELIMITER_EXTRA, PARTS_UV_COUNT);
  memset(p, 0, sizeof *p);
  pl_head_init(&p->head, PL_PART_HEAD, head, p->field);
  pl_mpart_init(&p->m, b, form, max, (char *)(p + 1) + fields, &p->head);
  p->m.simd = p->head.simd = lpl_simd();
  luaL_setmetatable(L, PARTS);
  return p;
}

/* multipart.parts(reader, boundary, is_form, limits, exclusive): the closure, nil, nil, closer. limits.parts,
   part_head bytes, part_fields. */
static int new_parts (lua_State *L) {
  pl_slice b;
  lpl_reader *body = lpl_checkreader(L, 1);
  b.p = luaL_checklstring(L, 2, &b.n);
  bool form = lua_toboolean(L, 3), exclusive = lua_toboolean(L, 5);
  lpl_parts *p = new_scanner(L, b, form);
  lua_pushvalue(L, 1);
  lpl_setuv(L, -2, UV_BODY);
  p->body = body;
  p->exclusive = exclusive;
  int self = lua_gettop(L);
  lua_pushvalue(L, self);
  lua_pushcclosure(L, parts_call, 1);
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, self);
  return 4;
}

/* multipart.disposition(value [, form]): { type, name, filename, ["filename*"] } | nil, message, code. form: names
   decode as browsers encode them (RFC 7578 4.2); else RFC 6266. */
static int disposition (lua_State *L) {
  pl_slice v;
  pl_disposition d;
  v.p = luaL_checklstring(L, 1, &v.n);
  bool form = lua_toboolean(L, 2);
  for (size_t i = 0; i < v.n; i++)
    if (((unsigned char)v.p[i] < 0x20 && v.p[i] != '\t') || v.p[i] == 0x7f) return lpl_fail(L, PL_E_BAD_HEADER, i);
  pl_err e = pl_disposition_read(v, &d);
  if (e) return lpl_fail(L, e, LPL_NOWHERE);
  lua_createtable(L, 0, 4);
  set_disposition(L, &d, form);
  return 1;
}

int lpl_open_mpart (lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", parts_close}, {"__close", parts_close}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"boundary", boundary}, {"parts", new_parts}, {"disposition", disposition}, {NULL, NULL}};
  luaL_newmetatable(L, PARTS);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
