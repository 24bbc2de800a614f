/* The common case of a server, without a step of Lua but the handler: requests that ask for nothing special, of a connection
   over a socket, answered with a string. Whatever is not that goes back to Lua as it is. */
#include <string.h>

#include "lpl_date.h"
#include "lpl_head.h"
#include "lpl_source.h"
#include "lpl_writer.h"

#define LANE "partline.lane"

enum {
  FAIR_REQUESTS = 100, /* pipelined requests of one connection before the others have their turn */
  HEAD_ROOM = 256,     /* for the heads that are made here */
  BODY_MAX = 64 * 1024 /* what the system does not take of an answer is copied */
};

/* What a server and its serve function share. */
typedef struct lane {
  bool plain; /* may answers be given here? */
  lua_Integer requests;
  lpl_date date;
} lane;

enum { UP_HEAD = 1, UP_SHARED, UP_READER, UP_WRITER, UP_LATE, UP_HANDLER, UP_FAILURE, UP_LINES, UP_LANE, UP_COUNT = UP_LANE };

/* serve's stack; a request is there from REQUEST on. */
enum { FROM = 1, TO, MEMORY, WOKEN, FAILURE, REQUEST, SAID, METHOD, RESULT };

/* ---- the answer ---- */

typedef struct answer {
  pl_slice line, type, body;
} answer;

static pl_slice slice_at (lua_State *L, int idx) {
  pl_slice s;
  s.p = lua_tolstring(L, idx, &s.n);
  return s;
}

/* May an answer with this status have a body, and is its line known? The lines stand at UP_LINES by status. */
static bool status_line (lua_State *L, lua_Integer status, answer *a) {
  if (status < 200 || status == 204 || status == 205 || status == 304) return false;
  bool known = lua_rawgeti(L, lua_upvalueindex(UP_LINES), status) == LUA_TSTRING;
  if (known) a->line = slice_at(L, -1);
  lua_pop(L, 1); /* the table keeps it */
  return known && a->line.n < HEAD_ROOM / 2;
}

/* The field of a response whose name and value are on the top; false when it is none for here. */
static bool take_field (lua_State *L, lua_Integer *status, answer *a) {
  if (lua_type(L, -2) != LUA_TSTRING) return false;
  const char *name = lua_tostring(L, -2);
  if (strcmp(name, "body") == 0 && lua_type(L, -1) == LUA_TSTRING) {
    a->body = slice_at(L, -1); /* the response keeps it */
    return true;
  }
  if (strcmp(name, "status") != 0 || !lua_isinteger(L, -1)) return false;
  *status = lua_tointeger(L, -1);
  return true;
}

static bool plain_table (lua_State *L, answer *a) {
  lua_Integer status = 200;
  if (lua_getmetatable(L, RESULT)) return false;
  lua_pushnil(L);
  while (lua_next(L, RESULT)) {
    if (!take_field(L, &status, a)) return false;
    lua_pop(L, 1);
  }
  return a->body.p != NULL && status_line(L, status, a);
}

/* What the handler gave, if it is a string, or a table with one and at most a status. May leave values on the stack. */
static bool plain_result (lua_State *L, answer *a) {
  static const char type[] = "Content-Type: text/plain; charset=utf-8\r\n";
  if (lua_type(L, RESULT) == LUA_TTABLE) return plain_table(L, a);
  if (lua_type(L, RESULT) != LUA_TSTRING) return false;
  a->body = slice_at(L, RESULT);
  a->type = (pl_slice){type, sizeof type - 1};
  return status_line(L, 200, a);
}

static char *put (char *to, pl_slice s) {
  if (s.n > 0) memcpy(to, s.p, s.n);
  return to + s.n;
}

static char *put_length (char *to, size_t n) {
  static const char name[] = "Content-Length: ";
  char digits[24];
  size_t i = sizeof digits;
  do digits[--i] = (char)('0' + n % 10);
  while ((n /= 10) > 0);
  to = put(to, (pl_slice){name, sizeof name - 1});
  to = put(to, (pl_slice){digits + i, sizeof digits - i});
  return put(to, (pl_slice){"\r\n\r\n", 4});
}

/* True: the answer is with the Writer, which has sent all of it if *whole. */
static bool answered (lua_State *L, lpl_writer *w, bool *whole) {
  lane *self = lua_touserdata(L, lua_upvalueindex(UP_LANE));
  answer a = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
  char head[HEAD_ROOM], *end;
  bool plain = self->plain && plain_result(L, &a) && a.body.n <= BODY_MAX && lpl_writer_free(w);
  lua_settop(L, RESULT);
  if (!plain) return false;
  end = put(put(head, a.line), a.type);
  end = put(end, (pl_slice){lpl_date_line(&self->date), LPL_DATE_LINE});
  end = put_length(end, a.body.n);
  *whole = lpl_writer_send_both(w, (pl_slice){head, (size_t)(end - head)}, a.body);
  return true;
}

/* ---- serve ---- */

static void push_served (lua_State *L, lua_KContext served) {
  if (served > 0) lua_pushinteger(L, (lua_Integer)served);
  else lua_pushboolean(L, 0);
}

/* Three answers, of which `given` are on the top, and how many requests were served. */
static int give (lua_State *L, int given, lua_KContext served) {
  for (; given < 3; given++) lua_pushnil(L);
  push_served(L, served);
  return 4;
}

static int wait (lua_State *L, bool pass, lua_KContext served) {
  lua_pushboolean(L, 0);
  lua_pushvalue(L, MEMORY);
  lua_pushboolean(L, pass);
  return give(L, 3, served);
}

/* Puts the next request at REQUEST and SAID: LPL_WAIT. Otherwise the number of serve's answers. */
static int next_request (lua_State *L, lua_KContext served) {
  lpl_reader *r = lua_touserdata(L, FROM);
  lpl_read a = {lua_upvalueindex(UP_HEAD), FROM,           lua_upvalueindex(UP_SHARED), MEMORY,
                PL_REQUEST,                PL_ASKED_OTHER, lua_toboolean(L, lua_upvalueindex(UP_LATE))};
  lua_settop(L, FAILURE);
  int n = lpl_read_once(L, &a, r);
  if (n == LPL_WAIT) return wait(L, !lpl_socket_drained(r), served);
  if (n != 2) return give(L, n, served);
  lua_pushnil(L);
  lua_replace(L, MEMORY);
  lua_remove(L, REQUEST); /* the head's bytes */
  return LPL_WAIT;
}

static bool is_plain (lua_State *L) {
  lua_getfield(L, SAID, "plain");
  bool plain = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return plain;
}

/* HEAD and CONNECT change what a body is. */
static bool wants_body (lua_State *L) {
  const char *method = lua_tostring(L, METHOD);
  return strcmp(method, "HEAD") != 0 && strcmp(method, "CONNECT") != 0;
}

/* What the handler gave, or raised, for Lua. */
static int leave (lua_State *L, bool failed, lua_KContext served) {
  lua_pushvalue(L, REQUEST);
  lua_pushvalue(L, SAID);
  lua_pushvalue(L, RESULT);
  push_served(L, served);
  lua_pushboolean(L, failed);
  lua_pushvalue(L, METHOD);
  return 6;
}

static int serve_k (lua_State *L, int status, lua_KContext served);

static int call_handler (lua_State *L, lua_KContext served) {
  lane *self = lua_touserdata(L, lua_upvalueindex(UP_LANE));
  self->requests++;
  lua_pushliteral(L, "method"); /* before the handler may change it */
  lua_rawget(L, REQUEST);
  lua_pushvalue(L, lua_upvalueindex(UP_HANDLER));
  lua_pushvalue(L, REQUEST);
  return lua_pcallk(L, 1, 1, FAILURE, served, serve_k);
}

static int serve_k (lua_State *L, int status, lua_KContext served) {
  bool resumed = status != LUA_OK;
  for (;;) {
    if (!resumed) {
      if (served == FAIR_REQUESTS) return wait(L, true, served);
      int n = next_request(L, served);
      if (n != LPL_WAIT) return n;
      if (!is_plain(L)) return give(L, 2, served);
      status = call_handler(L, ++served);
    }
    resumed = false;
    bool failed = status != LUA_OK && status != LUA_YIELD, whole = false;
    if (failed || !wants_body(L) || !answered(L, lua_touserdata(L, TO), &whole)) return leave(L, failed, served);
    if (!whole) {
      lua_pushboolean(L, 1);
      return give(L, 1, served);
    }
  }
}

/* The userdata at idx, whose metatable has to be that upvalue: luaL_checkudata asks the registry, each time. */
static void *check (lua_State *L, int idx, int up, const char *what) {
  void *p = lua_touserdata(L, idx);
  bool same = p && lua_getmetatable(L, idx) && lua_rawequal(L, -1, lua_upvalueindex(up));
  luaL_argcheck(L, same, idx, what);
  return p;
}

/* serve(reader, writer, held, woken): serves what has arrived of requests that are `plain` (see lpl_push_about), and
   calls the handler with them.
     false, held, pass, served           somebody has to wait; held: the memory of half a head, for the next call; pass:
                                         nothing is lacking, but the others should have their turn
     nil [, message, code], served       no more requests
     true, nil, nil, served              the Writer has to be flushed
     request, about, nil, served         one that is not plain
     request, about, result, served, failed, method   the handler has given, or raised and `failure` made, what is not
                                         for here; method: before the handler had the request
   served: how many handlers were called, or false. woken: somebody has waited since. May yield: in the handler only. */
static int serve (lua_State *L) {
  lua_settop(L, WOKEN);
  lpl_reader *r = check(L, FROM, UP_READER, "reader expected");
  check(L, TO, UP_WRITER, "writer expected");
  luaL_argcheck(L, r->src == &lpl_from_socket, FROM, "reader of a socket expected");
  luaL_argcheck(L, lua_isnil(L, MEMORY) || lpl_is_memory(L, MEMORY, lua_upvalueindex(UP_HEAD)), MEMORY, "held expected");
  luaL_checkstack(L, 24, NULL);
  if (lua_toboolean(L, WOKEN)) lpl_socket_woken(r);
  lua_settop(L, WOKEN);
  lua_pushvalue(L, lua_upvalueindex(UP_FAILURE));
  return serve_k(L, LUA_OK, 0);
}

/* ---- the lane ---- */

static lane *check_lane (lua_State *L) { return luaL_checkudata(L, 1, LANE); }

/* lane:plain(yes): may serve answer by itself? */
static int lane_plain (lua_State *L) {
  check_lane(L)->plain = lua_toboolean(L, 2);
  return 0;
}

/* lane:requests(): how many handlers serve has called */
static int lane_requests (lua_State *L) {
  lua_pushinteger(L, check_lane(L)->requests);
  return 1;
}

static void push_lane (lua_State *L) {
  lane *self = lpl_newuserdata(L, sizeof *self, 0);
  self->plain = true;
  self->requests = 0;
  self->date.at = (time_t)-1;
  luaL_setmetatable(L, LANE);
}

void lpl_serve_open (lua_State *L) {
  static const luaL_Reg methods[] = {{"plain", lane_plain}, {"requests", lane_requests}, {NULL, NULL}};
  luaL_newmetatable(L, LANE);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* head.server(head, late, handler, failure, lines): serve, lane. late: headers are built when they are asked for.
   failure: the message handler of handler(request). lines: status lines by status. */
int lpl_serve_new (lua_State *L) {
  luaL_checkudata(L, 1, LPL_HEAD);
  luaL_checktype(L, 4, LUA_TFUNCTION);
  luaL_checktype(L, 5, LUA_TTABLE);
  lua_settop(L, 5);
  push_lane(L);
  lua_pushvalue(L, 1);
  lpl_push_shared(L);
  luaL_getmetatable(L, LPL_READER);
  luaL_getmetatable(L, LPL_WRITER);
  for (int i = 2; i <= 6; i++) lua_pushvalue(L, i);
  lua_pushcclosure(L, serve, UP_COUNT);
  lua_insert(L, 6);
  return 2;
}
