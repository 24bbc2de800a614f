/* Where a Reader's bytes come from: memory, files, functions and sockets; length limits and chunked coding over another
   Reader. None of it waits: what lacks bytes says PL_MORE, and lpl_wait_* lets Lua wait. (Parts: lpl_mpart.c.) */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lpl.h"
#include "lpl_source.h"

#ifndef MSG_DONTWAIT
#define MSG_DONTWAIT 0 /* LuaSocket's descriptors do not block anyway */
#endif

enum {
  EXTEND_STEP = 4096,       /* least an extension asks for */
  FILE_STEP = 64 * 1024,
  SOCKET_FIRST = 4 * 1024,  /* enough for a head; grows while it is filled whole */
  FAIR_RUN = 1024 * 1024,   /* bytes a peer may send without a pause before the others have their turn */
  SOCKET_MOST = 64 * 1024, /* below malloc's threshold for mapping pages anew each time */
  EMPTY_PIECES_MAX = 1000
};

static pl_got failed (lpl_reader *r, pl_err e, uint64_t at) {
  r->err = e;
  r->err_at = at;
  return PL_FAIL;
}

/* ---- view, skip, extend ---- */

static pl_got note (lpl_reader *r, pl_got got) {
  if (got == PL_END) r->ended = true;
  return got;
}

static pl_got stopped (lpl_reader *r) {
  if (r->src == NULL || r->closed) return failed(r, PL_E_CLOSED, LPL_NOWHERE);
  if (r->err) return PL_FAIL;
  return r->ended ? PL_END : PL_DATA;
}

pl_got lpl_view (lpl_reader *r, pl_slice *s) {
  bool valid = r->src == NULL || r->src->valid == NULL || r->src->valid(r);
  if (!r->closed && pl_buf_len(&r->q) > 0 && valid) {
    *s = pl_buf_peek(&r->q);
    return PL_DATA;
  }
  pl_got got = stopped(r);
  if (got != PL_DATA) return got;
  if (r->src->pull) return note(r, r->src->pull(r, s));
  got = note(r, r->src->fill(r, 0));
  *s = pl_buf_peek(&r->q);
  return got;
}

void lpl_skip (lpl_reader *r, size_t n) {
  if (pl_buf_len(&r->q) > 0) pl_buf_skip(&r->q, n);
  else if (n > 0 && r->src->took) r->src->took(r, n);
  r->given += n;
}

uint64_t lpl_mark (const lpl_reader *r) {
  uint64_t mark = 0;
  for (; r; r = r->up) mark += r->given + ((uint64_t)r->closes << 48);
  return mark;
}

void lpl_use (lua_State *L, lpl_reader *r, size_t n, uint64_t mark) {
  if (lpl_mark(r) != mark) luaL_error(L, "a finaliser has used the reader");
  lpl_skip(r, n);
}

/* Moves at most n of the bytes that pull shows into the queue. */
static pl_got gather (lpl_reader *r, size_t most) {
  pl_slice s;
  pl_got got = note(r, r->src->pull(r, &s));
  if (got != PL_DATA) return got;
  size_t n = s.n < most ? s.n : most;
  if (!pl_buf_append(&r->q, s.p, n)) return failed(r, PL_E_NO_MEMORY, LPL_NOWHERE);
  r->src->took(r, n);
  return PL_DATA;
}

pl_got lpl_extend (lpl_reader *r, size_t want) {
  pl_got got = stopped(r);
  if (got != PL_DATA) return got;
  if (r->src->fill) return note(r, r->src->fill(r, want));
  if (pl_buf_len(&r->q) == 0) { /* first all that was in sight: what is shown never shrinks */
    got = gather(r, SIZE_MAX);
    if (got != PL_DATA) return got;
  }
  return gather(r, want > EXTEND_STEP ? want : EXTEND_STEP);
}

/* ---- memory ---- */

static pl_got mem_pull (lpl_reader *r, pl_slice *s) {
  *s = (pl_slice){r->u.mem.p, r->u.mem.n};
  return s->n > 0 ? PL_DATA : PL_END;
}

static void mem_took (lpl_reader *r, size_t n) {
  r->u.mem.p += n;
  r->u.mem.n -= n;
}

static int64_t mem_length (const lpl_reader *r) { return (int64_t)r->u.mem.n; }

const lpl_source lpl_from_string = {"string", mem_pull, mem_took, NULL, mem_length, NULL};

/* ---- a function's pieces: the current one lies in LPL_UV_PIECE ---- */

static pl_got fn_pull (lpl_reader *r, pl_slice *s) {
  *s = (pl_slice){r->u.fn.p, r->u.fn.n};
  return s->n > 0 ? PL_DATA : r->u.fn.over ? PL_END : PL_MORE;
}

static void fn_took (lpl_reader *r, size_t n) {
  r->u.fn.p += n;
  r->u.fn.n -= n;
}

const lpl_source lpl_from_function = {"function", fn_pull, fn_took, NULL, NULL, NULL};

/* ---- files ---- */

/* fread waits until it has all it was asked for: from a pipe that is what has arrived, or one byte. */
static size_t at_hand (FILE *f) {
  int n;
  if (ioctl(fileno(f), FIONREAD, &n) != 0 || n < 1) return 1;
  return n < FILE_STEP ? (size_t)n : FILE_STEP;
}

static pl_got file_fill (lpl_reader *r, size_t want) {
  luaL_Stream *file = r->u.file.stream;
  (void)want;
  if (file->closef == NULL) return failed(r, PL_E_CLOSED, LPL_NOWHERE);
  size_t n = r->u.file.live ? at_hand(file->f) : FILE_STEP;
  if (r->u.file.left >= 0 && (uint64_t)r->u.file.left < n) n = (size_t)r->u.file.left;
  if (n == 0) return PL_END;
  char *to = pl_buf_reserve(&r->q, n);
  if (to == NULL) return failed(r, PL_E_NO_MEMORY, LPL_NOWHERE);
  errno = 0;
  size_t got = fread(to, 1, n, file->f);
  if (got == 0 && ferror(file->f)) {
    r->os_error = errno;
    return failed(r, PL_E_READ_FAILED, r->given);
  }
  pl_buf_commit(&r->q, got);
  if (r->u.file.left >= 0) r->u.file.left -= (int64_t)got;
  return got > 0 ? PL_DATA : PL_END;
}

static int64_t file_length (const lpl_reader *r) {
  const luaL_Stream *file = r->u.file.stream;
  if (r->u.file.left >= 0 || file->closef == NULL) return r->u.file.left;
  off_t here = ftello(file->f);
  if (here < 0 || fseeko(file->f, 0, SEEK_END) != 0) return -1;
  off_t end = ftello(file->f);
  if (fseeko(file->f, here, SEEK_SET) != 0) return -1;
  return end < here ? 0 : (int64_t)(end - here);
}

const lpl_source lpl_from_file = {"file", NULL, NULL, file_fill, file_length, NULL};

/* ---- sockets: the descriptor itself ---- */

/* LuaSocket keeps the descriptor as the first word of its userdata and clears it when the socket is closed: so a number
   that the system has given to another connection since is never read. */
static bool still_open (const lpl_reader *r) {
  return r->u.sock.live == NULL || *r->u.sock.live == r->u.sock.fd;
}

/* A read that was not filled has emptied the socket: asking again would be one system call too many. */
static pl_got wait_first (lpl_reader *r) {
  if (r->u.sock.drained && pl_buf_len(&r->q) == 0) pl_buf_free(&r->q); /* who waits holds no memory */
  return PL_MORE;
}

/* The first bytes have come: from now on the time for all of them counts. */
static void begin_deadline (lpl_reader *r) {
  r->u.sock.deadline = lpl_now() + r->u.sock.then;
  r->u.sock.timeout = r->u.sock.then = 0;
}

/* Reads what is there into the queue: bytes read, 0 at the end, -1 with errno (ENOMEM too). Most heads are small: the
   first read goes through the stack, so that the queue is no larger than what has come. */
static ssize_t receive (lpl_reader *r, size_t room) {
  char first[SOCKET_FIRST], *to = first;
  bool through = room == SOCKET_FIRST && r->q.cap == 0;
  ssize_t n;
  if (!through) to = pl_buf_reserve(&r->q, room);
  errno = ENOMEM;
  if (to == NULL) return -1;
  do n = recv(r->u.sock.fd, to, room, MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n > 0 && !through) pl_buf_commit(&r->q, (size_t)n);
  if (n > 0 && through && !pl_buf_append(&r->q, first, (size_t)n)) {
    errno = ENOMEM;
    return -1;
  }
  return n;
}

static pl_got sock_fill (lpl_reader *r, size_t want) {
  (void)want;
  if (!still_open(r)) return failed(r, PL_E_CLOSED, LPL_NOWHERE);
  if (r->u.sock.drained || r->u.sock.run >= FAIR_RUN) return wait_first(r);
  size_t room = r->u.sock.once ? r->u.sock.once : r->u.sock.size;
  r->u.sock.once = 0;
  ssize_t n = receive(r, room);
  if (n > 0) {
    r->u.sock.drained = (size_t)n < room;
    r->u.sock.run += (size_t)n;
    if (r->u.sock.then > 0) begin_deadline(r);
    if ((size_t)n == r->u.sock.size && room < SOCKET_MOST) r->u.sock.size = room * 2;
    return PL_DATA;
  }
  if (n == 0) return PL_END;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    r->u.sock.drained = true;
    return wait_first(r);
  }
  if (errno == ENOMEM) return failed(r, PL_E_NO_MEMORY, LPL_NOWHERE);
  r->os_error = errno;
  return failed(r, PL_E_READ_FAILED, r->given);
}

const lpl_source lpl_from_socket = {"socket", NULL, NULL, sock_fill, NULL, NULL};

void lpl_socket_once (lpl_reader *r, size_t n) {
  while (r->up) r = r->up;
  if (r->src == &lpl_from_socket && n < r->u.sock.size) r->u.sock.once = n;
}

void lpl_socket_woken (lpl_reader *r) {
  r->u.sock.drained = false;
  r->u.sock.run = 0;
}

bool lpl_socket_drained (const lpl_reader *r) { return r->u.sock.drained; }

void lpl_socket_deadline (lpl_reader *r, double seconds) {
  r->u.sock.timeout = r->u.sock.then = 0;
  r->u.sock.deadline = lpl_now() + seconds;
}

void lpl_socket_init (lpl_reader *r, int fd, const int *live) {
  r->u.sock.fd = fd;
  r->u.sock.live = live;
  r->u.sock.size = SOCKET_FIRST;
}

/* ---- over another Reader ---- */

/* The failure below is ours too. */
static pl_got inherit (lpl_reader *r) {
  r->os_error = r->up->os_error;
  return failed(r, r->up->err, r->up->err_at);
}

pl_got lpl_pull_safe (lpl_reader *r, pl_slice *s) {
  pl_got got = lpl_view(r->up, s);
  if (got == PL_FAIL) return inherit(r);
  if (got == PL_END) return failed(r, PL_E_UNEXPECTED_EOF, r->given + pl_buf_len(&r->q));
  if (s->n > r->safe) s->n = r->safe;
  return got;
}

void lpl_took_safe (lpl_reader *r, size_t n) {
  lpl_skip(r->up, n);
  r->safe -= n;
}

/* ---- the first n bytes ---- */

static pl_got limit_pull (lpl_reader *r, pl_slice *s) {
  if (r->u.limit.left == 0) return PL_END;
  pl_got got = lpl_view(r->up, s);
  if (got == PL_FAIL) return inherit(r);
  if (got == PL_END && r->u.limit.exact) return failed(r, PL_E_UNEXPECTED_EOF, r->given + pl_buf_len(&r->q));
  if (got == PL_DATA && s->n > r->u.limit.left) s->n = (size_t)r->u.limit.left;
  return got;
}

static void limit_took (lpl_reader *r, size_t n) {
  lpl_skip(r->up, n);
  r->u.limit.left -= n;
}

static int64_t limit_length (const lpl_reader *r) {
  int64_t left = (int64_t)r->u.limit.left;
  if (r->u.limit.exact) return left;
  int64_t below = lpl_length(r->up);
  return below < 0 ? -1 : below < left ? below : left;
}

const lpl_source lpl_from_limit = {"limit", limit_pull, limit_took, NULL, limit_length, NULL};

/* ---- chunked coding ---- */

/* The trailer section outlives the bytes below: it is copied, for trailers(). */
static pl_got chunked_end (lpl_reader *r, pl_slice trailer) {
  bool ok = pl_buf_append(&r->u.chunked.trailer, trailer.p, trailer.n);
  return ok ? PL_END : failed(r, PL_E_NO_MEMORY, LPL_NOWHERE);
}

/* No bytes are ahead, or too few: PL_DATA when there are more now. */
static pl_got chunked_lacks (lpl_reader *r, size_t held) {
  pl_got got = held > 0 ? lpl_extend(r->up, 0) : PL_DATA;
  if (got == PL_FAIL) return inherit(r);
  return got == PL_END ? failed(r, PL_E_UNEXPECTED_EOF, r->u.chunked.c.at + held) : got;
}

static pl_got chunked_pull (lpl_reader *r, pl_slice *s) {
  while (r->safe == 0) {
    pl_slice ahead, data;
    size_t used;
    pl_got got = lpl_view(r->up, &ahead);
    if (got == PL_FAIL) return inherit(r);
    if (got == PL_END) return failed(r, PL_E_UNEXPECTED_EOF, r->u.chunked.c.at);
    if (got == PL_MORE) return got;
    lpl_head_again(&r->u.chunked.head, ahead.n);
    got = pl_chunk_step(&r->u.chunked.c, ahead.p, ahead.n, &used, &data);
    if (got == PL_FAIL) return failed(r, r->u.chunked.c.err, r->u.chunked.c.err_at);
    if (got == PL_END) got = chunked_end(r, data);
    lpl_skip(r->up, got == PL_DATA ? used - data.n : used);
    if (got == PL_DATA) r->safe = data.n;
    if (got == PL_MORE) got = chunked_lacks(r, ahead.n - used);
    if (got != PL_DATA) return got;
  }
  return lpl_pull_safe(r, s);
}

const lpl_source lpl_from_chunked = {"chunked", chunked_pull, lpl_took_safe, NULL, NULL, NULL};

int64_t lpl_length (const lpl_reader *r) {
  int64_t queued = (int64_t)pl_buf_len(&r->q);
  if (r->src == NULL || r->closed) return -1;
  if (r->ended) return queued;
  int64_t ahead = r->src->length ? r->src->length(r) : -1;
  return ahead < 0 ? -1 : ahead + queued;
}

/* ---- waiting ---- */

/* Pushes the Reader at the bottom of the one at idx: the one that has to wait. */
static lpl_reader *push_root (lua_State *L, int idx) {
  lua_pushvalue(L, idx);
  lpl_reader *r = lua_touserdata(L, -1);
  while (r->up != NULL) {
    lpl_getuv(L, -1, LPL_UV_UP);
    if (lua_touserdata(L, -1) != r->up) { /* a part: its iterator stands in between */
      lpl_getuv(L, -1, LPL_UV_UP);
      lua_remove(L, -2);
    }
    lua_remove(L, -2);
    r = r->up;
  }
  return r;
}

static int push_wait_args (lua_State *L, const lpl_reader *root) {
  double until = root->u.sock.timeout > 0 ? lpl_now() + root->u.sock.timeout : 0;
  double deadline = root->u.sock.deadline;
  if (deadline > 0 && (until == 0 || deadline < until)) until = deadline;
  lua_pushinteger(L, root->u.sock.fd);
  lua_pushliteral(L, "r");
  if (until == 0) lua_pushnil(L);
  else lua_pushnumber(L, until);
  lua_pushboolean(L, !root->u.sock.drained);
  return 4;
}

int lpl_wait_begin (lua_State *L, int idx) {
  luaL_checkstack(L, 8, NULL);
  lpl_reader *root = push_root(L, idx);
  bool hook = root->hook;
  lpl_getuv(L, -1, hook ? LPL_UV_HOOK : LPL_UV_CALL);
  if (hook) { /* once; its answer counts as that of a wait */
    root->hook = false;
    lua_pushnil(L);
    lpl_setuv(L, -3, LPL_UV_HOOK);
  }
  lua_remove(L, -2);
  if (hook) return 0;
  if (root->src == &lpl_from_socket) {
    root->u.sock.waiting = true;
    return push_wait_args(L, root);
  }
  if (!root->u.fn.hint) return 0;
  lua_pushinteger(L, FILE_STEP);
  return 1;
}

/* In what follows root is on the top and the three results are below it. */

static bool is_timeout (const char *code) { return code && strcmp(code, pl_err_code(PL_E_TIMEOUT)) == 0; }

/* nil: the end; nil, message[, code]: a failure. A timeout may be tried again. */
static void took_nil (lua_State *L, lpl_reader *root) {
  if (lua_isnil(L, -3)) {
    root->u.fn.over = true;
    return;
  }
  if (lua_type(L, -2) == LUA_TSTRING && is_timeout(lua_tostring(L, -2))) {
    failed(root, PL_E_TIMEOUT, LPL_NOWHERE);
    return;
  }
  luaL_tolstring(L, -3, NULL);
  lpl_setuv(L, -2, LPL_UV_MESSAGE);
  if (lua_type(L, -2) == LUA_TSTRING) lua_pushvalue(L, -2);
  else lua_pushstring(L, pl_err_code(PL_E_SOURCE));
  lpl_setuv(L, -2, LPL_UV_CODE);
  failed(root, PL_E_SOURCE, LPL_NOWHERE);
}

static void took_piece (lua_State *L, lpl_reader *root) {
  size_t n = 0;
  pl_err before = root->err;
  root->err = PL_E_NO_MEMORY; /* a number becomes a string: when that fails, its bytes must not be missing unseen */
  const char *p = lua_isboolean(L, -4) ? "" : lua_tolstring(L, -4, &n); /* true: a hook's answer */
  root->err = before;
  if (p == NULL) luaL_error(L, "a source must give strings or nil, not a %s", luaL_typename(L, -4));
  if (n == 0) {
    if (++root->u.fn.empties >= EMPTY_PIECES_MAX) failed(root, PL_E_NO_PROGRESS, LPL_NOWHERE);
    return;
  }
  root->u.fn.empties = 0;
  /* another coroutine may have been faster: its piece comes first */
  if (!pl_buf_append(&root->q, root->u.fn.p, root->u.fn.n)) failed(root, PL_E_NO_MEMORY, LPL_NOWHERE);
  lua_pushvalue(L, -4);
  lpl_setuv(L, -2, LPL_UV_PIECE);
  root->u.fn.p = p;
  root->u.fn.n = n;
}

/* A wait's answer: true, or nil, message, code. */
static void took_wait (lua_State *L, lpl_reader *root) {
  root->u.sock.drained = root->u.sock.waiting = false;
  root->u.sock.run = 0;
  if (lua_toboolean(L, -4)) return;
  const char *code = lua_tostring(L, -2);
  bool timeout = code == NULL || is_timeout(code);
  failed(root, timeout ? PL_E_TIMEOUT : PL_E_CLOSED, LPL_NOWHERE);
}

void lpl_wait_end (lua_State *L, int idx) {
  lpl_reader *root = push_root(L, idx);
  if (!root->closed) { /* closed while it waited: what came is dropped */
    if (root->src == &lpl_from_socket) took_wait(L, root);
    else if (lua_toboolean(L, -4)) took_piece(L, root);
    else took_nil(L, root);
  }
  lua_pop(L, 1 + LPL_WAIT_RESULTS);
}
