/* The tables that Lua sees of a head: fields, request, response.

   Most heads of a connection, and of a server, have the same names in the same order, and many the same values. So the
   names of a table of fields are kept as its shape: its metatable, which holds them as Lua strings in their order and is
   shared by all tables of that shape. A head of a known shape costs one comparison of its names; no string is made of
   them, no repeat is looked for, and the order costs nothing to remember. A shape also keeps the value that each field
   had last, if it is short and not secret, for the next head that says the same. A head with repeated names, or a very
   large one, has a metatable of its own, which holds all values too. */
#include <string.h>

#include "lpl_message.h"

#define SHARED "partline.shared" /* registry: the shared table */
#define HEADERS "partline.headers" /* class of tables that were not received */
#define SHAPE "partline.shape"   /* class of what stands at [SELF] in a shape */

/* What shapes may hold: at most a few MiB in all, whatever the peers send. */
enum {
  SLOTS = 128,       /* shapes known at a time; a new one takes the place of an old one */
  SHAPE_FIELDS = 48, /* a head with more, or with more bytes of names, has its own */
  SHAPE_BYTES = 1024,
  VALUE_BYTES = 128, /* longer values are not kept */
  MISSES_MAX = 16    /* other values in a row: this one varies, none is kept any more */
};

/* In the shared table: at [1] to [SLOTS] the shapes, behind them their [SELF], and */
enum { CACHE = 0, MESSAGES = 2 * SLOTS + 1, ABOUTS = MESSAGES + 10, SHARED_SIZE = ABOUTS + 48 };

/* In a shape: at [1] to [n] the names, behind them values, and */
enum { SELF = 0 };

typedef struct place {
  uint16_t name_len;
  uint8_t misses;
  uint32_t value_len; /* of the Lua string at [n + 1] and up; NO_VALUE: none is kept */
} place;

#define NO_VALUE UINT32_MAX

typedef struct shape {
  uint32_t n;
  bool lower, shared;
  const char *names; /* as they stand in a head, one after the other; behind the places */
  place at[1];       /* n of them; of shared shapes only, as the names */
} shape;

typedef struct cache {
  shape *at[SLOTS]; /* kept alive by the shared table */
  const struct pl_simd *simd;
} cache;

static cache *get_cache (lua_State *L, int idx) {
  lua_rawgeti(L, idx, CACHE);
  cache *c = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return c;
}

void lpl_push_shared (lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, SHARED); }

/* ---- names and values ---- */

static void push_value (lua_State *L, const pl_field *f, const char *base) {
  pl_slice v = pl_value(f, base);
  if (!f->folded) {
    lua_pushlstring(L, v.p, v.n);
    return;
  }
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, v.n);
  luaL_pushresultsize(&b, pl_unfold(v, out));
}

static void push_name (lua_State *L, const pl_field *f, const char *base, bool lower) {
  pl_slice name = pl_name(f, base);
  if (!lower) {
    lua_pushlstring(L, name.p, name.n);
    return;
  }
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, name.n);
  for (size_t i = 0; i < name.n; i++) {
    unsigned char c = (unsigned char)name.p[i];
    out[i] = (char)((unsigned char)(c - 'A') < 26 ? c | 0x20 : c);
  }
  luaL_pushresultsize(&b, name.n);
}

/* The value of a name that comes once: a list for Set-Cookie (RFC 9110 5.3). */
static void push_first (lua_State *L, const pl_field *f, const char *base) {
  if (f->id != PL_F_SET_COOKIE) {
    push_value(L, f, base);
    return;
  }
  lua_createtable(L, 1, 0);
  push_value(L, f, base);
  lua_rawseti(L, -2, 1);
}

/* The value of a name that has come before: joined with ", ", or added to the list. The table of fields is on the top,
   then the key; pops the key. */
static void add_repeated (lua_State *L, const pl_field *f, const char *base) {
  lua_pushvalue(L, -1);
  lua_rawget(L, -3);
  if (lua_istable(L, -1)) {
    push_value(L, f, base);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 2);
    return;
  }
  lua_pushliteral(L, ", ");
  push_value(L, f, base);
  lua_concat(L, 3);
  lua_rawset(L, -3);
}

/* ---- look-up that ignores case ---- */

/* The key of the table at 1 that equals the string at 2 but for case; pushes key and value. */
static bool find_key (lua_State *L) {
  size_t n, m;
  const char *name = lua_tolstring(L, 2, &n);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &m) : NULL;
    if (key && pl_ieq(key, m, name, n)) return true;
    lua_pop(L, 1);
  }
  return false;
}

static int headers_index (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (lua_type(L, 2) != LUA_TSTRING || !find_key(L)) lua_pushnil(L);
  return 1;
}

/* A new name in another case is the old one. */
static int headers_newindex (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  if (lua_type(L, 2) == LUA_TSTRING && find_key(L)) {
    lua_pop(L, 1);
    lua_replace(L, 2);
  }
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

static const luaL_Reg look_up[] = {{"__index", headers_index}, {"__newindex", headers_newindex}, {NULL, NULL}};

int lpl_headers_wrap (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_setmetatable(L, HEADERS);
  return 1;
}

/* ---- shapes ---- */

static inline uint64_t word (const char *p) {
  uint64_t w;
  memcpy(&w, p, sizeof w);
  return w;
}

static inline uint32_t half_word (const char *p) {
  uint32_t w;
  memcpy(&w, p, sizeof w);
  return w;
}

/* Names are short: two words that overlap. */
static inline bool same_bytes (const char *a, const char *b, size_t n) {
  if (n > 16 || n < 4) return memcmp(a, b, n) == 0;
  if (n >= 8) return word(a) == word(b) && word(a + n - 8) == word(b + n - 8);
  return half_word(a) == half_word(b) && half_word(a + n - 4) == half_word(b + n - 4);
}

/* Where in the cache the shape of a head belongs, from the lengths and ends of its names; -1: nowhere. */
static int slot_of (const pl_head *h, const char *base, bool lower) {
  uint32_t sum = h->nfields, bytes = 0;
  if (h->nfields > SHAPE_FIELDS) return -1;
  for (uint32_t i = 0; i < h->nfields; i++) {
    const pl_field *f = &h->field[i];
    const unsigned char *name = (const unsigned char *)base + f->name;
    bytes += f->name_len;
    sum = sum * 33 + (f->name_len ^ (uint32_t)name[0] << 8 ^ (uint32_t)name[f->name_len - 1] << 16);
  }
  sum = (sum + lower) * UINT32_C(0x9e3779b1);
  return bytes > SHAPE_BYTES ? -1 : (int)(sum >> 16) % SLOTS;
}

static bool same_shape (const shape *s, const pl_head *h, const char *base, bool lower) {
  const char *p = s->names;
  if (s->n != h->nfields || s->lower != lower) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    size_t n = s->at[i].name_len;
    if (n != h->field[i].name_len || !same_bytes(p, base + h->field[i].name, n)) return false;
    p += n;
  }
  return true;
}

/* The field of the same name, ignoring case, before field i. */
static const pl_field *same_name (const pl_head *h, uint32_t i, const char *base) {
  pl_slice name = pl_name(&h->field[i], base);
  for (uint32_t j = 0; j < i; j++)
    if (h->field[j].name_len == name.n && pl_ieq(base + h->field[j].name, name.n, name.p, name.n)) return &h->field[j];
  return NULL;
}

static bool has_repeats (const pl_head *h, const char *base) {
  for (uint32_t i = 1; i < h->nfields; i++)
    if (same_name(h, i, base)) return true;
  return false;
}

static void set_names (lua_State *L, const pl_head *h, const char *base, bool lower) {
  for (uint32_t i = 0; i < h->nfields; i++) {
    push_name(L, &h->field[i], base, lower);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void set_values (lua_State *L, const pl_head *h, const char *base) {
  for (uint32_t i = 0; i < h->nfields; i++) {
    push_value(L, &h->field[i], base);
    lua_rawseti(L, -2, (lua_Integer)h->nfields + i + 1);
  }
}

/* Values that stay out of what is compared with other peers' input. */
static bool is_secret (pl_slice name) {
  return PL_IS(name, "cookie") || PL_IS(name, "set-cookie") || PL_IS(name, "authorization") ||
         PL_IS(name, "proxy-authorization");
}

static void set_places (shape *s, const pl_head *h, const char *base) {
  char *p = (char *)&s->at[h->nfields];
  s->names = p;
  for (uint32_t i = 0; i < h->nfields; i++) {
    pl_slice name = pl_name(&h->field[i], base);
    s->at[i] = (place){.name_len = (uint16_t)name.n, .value_len = NO_VALUE};
    if (is_secret(name)) s->at[i].misses = MISSES_MAX;
    memcpy(p, name.p, name.n);
    p += name.n;
  }
}

/* What getmetatable says of a table of fields: a program that changed a shape would change the fields of others. */
static void protect (lua_State *L) {
  lua_pushliteral(L, HEADERS);
  lua_setfield(L, -2, "__metatable");
}

/* A new shape on the top of the stack. */
static shape *push_shape (lua_State *L, const pl_head *h, const char *base, bool lower, bool shared) {
  size_t size = sizeof(shape);
  for (uint32_t i = 0; shared && i < h->nfields; i++) size += sizeof(place) + h->field[i].name_len;
  lua_createtable(L, (int)h->nfields * 2, 4);
  luaL_setfuncs(L, look_up, 0);
  protect(L);
  set_names(L, h, base, lower);
  if (!shared) set_values(L, h, base);
  shape *s = lpl_newuserdata(L, size, 0);
  luaL_setmetatable(L, SHAPE);
  s->n = h->nfields;
  s->lower = lower;
  s->shared = shared;
  if (shared) set_places(s, h, base);
  lua_rawseti(L, -2, SELF);
  return s;
}

/* The known shape of a head on the top of the stack, made if need be; NULL and nothing: it cannot be shared. */
static shape *push_known_shape (lua_State *L, int idx, const pl_head *h, const char *base, bool lower) {
  int slot = slot_of(h, base, lower);
  if (slot < 0) return NULL;
  cache *c = get_cache(L, idx);
  if (c->at[slot] && same_shape(c->at[slot], h, base, lower)) {
    lua_rawgeti(L, idx, slot + 1);
    return c->at[slot];
  }
  if (has_repeats(h, base)) return NULL;
  shape *s = push_shape(L, h, base, lower, true);
  lua_pushvalue(L, -1);
  lua_rawseti(L, idx, slot + 1);
  lua_rawgeti(L, -1, SELF);
  lua_rawseti(L, idx, SLOTS + slot + 1);
  c->at[slot] = s;
  return s;
}

/* ---- the table of fields ---- */

static void push_with_repeats (lua_State *L, const pl_head *h, const char *base, bool lower) {
  lua_createtable(L, 0, (int)h->nfields);
  for (uint32_t i = 0; i < h->nfields; i++) {
    const pl_field *f = &h->field[i], *before = same_name(h, i, base);
    push_name(L, before ? before : f, base, lower);
    if (before) {
      add_repeated(L, f, base);
    } else {
      push_first(L, f, base);
      lua_rawset(L, -3);
    }
  }
  push_shape(L, h, base, lower, false);
  lua_setmetatable(L, -2);
}

/* Pushes the value that field i had last, if it is the same again. */
static bool push_same (lua_State *L, const shape *s, uint32_t i, const pl_field *f, const char *base) {
  size_t n;
  if (s->at[i].value_len != f->value_len) return false;
  lua_rawgeti(L, -3, (lua_Integer)s->n + i + 1);
  const char *v = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
  if (v && n == f->value_len && same_bytes(v, base + f->value, n)) return true;
  lua_pop(L, 1);
  return false;
}

/* The value of field i, which may be the one of the head before; the shape is on the top, then the table of fields and
   the name. */
static void push_kept (lua_State *L, shape *s, uint32_t i, const pl_field *f, const char *base) {
  place *k = &s->at[i];
  if (push_same(L, s, i, f, base)) {
    k->misses = 0;
    return;
  }
  push_first(L, f, base);
  if (k->misses == MISSES_MAX || f->value_len > VALUE_BYTES || f->folded) return;
  bool varies = ++k->misses == MISSES_MAX;
  if (varies) lua_pushnil(L);
  else lua_pushvalue(L, -1);
  lua_rawseti(L, -5, (lua_Integer)s->n + i + 1);
  k->value_len = varies ? NO_VALUE : f->value_len;
}

void lpl_push_fields (lua_State *L, int idx, const pl_head *h, const char *base, bool lower) {
  luaL_checkstack(L, 8, NULL);
  shape *s = push_known_shape(L, idx, h, base, lower);
  if (s == NULL) {
    push_with_repeats(L, h, base, lower);
    return;
  }
  lua_createtable(L, 0, (int)h->nfields);
  for (uint32_t i = 0; i < h->nfields; i++) {
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    push_kept(L, s, i, &h->field[i], base);
    lua_rawset(L, -3);
  }
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
}

void lpl_push_headers (lua_State *L, const pl_head *h, const char *base) {
  lpl_push_shared(L);
  lpl_push_fields(L, lua_gettop(L), h, base, false);
  lua_remove(L, -2);
}

int lpl_headers_order (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (!lua_getmetatable(L, 1)) return 0;
  lua_rawgeti(L, 2, SELF);
  const shape *s = luaL_testudata(L, 3, SHAPE);
  if (s == NULL) return 0;
  for (int list = 0; list < (s->shared ? 1 : 2); list++) {
    lua_createtable(L, (int)s->n, 0);
    for (uint32_t i = 1; i <= s->n; i++) {
      lua_rawgeti(L, 2, (lua_Integer)(list * s->n + i));
      lua_rawseti(L, -2, i);
    }
  }
  return s->shared ? 1 : 2;
}

/* ---- messages: what is not always asked for is made when it is ---- */

static const char head_key; /* its address: where a message keeps its head until the fields are asked for */

/* The upvalues of a message's metamethods. */
enum { UP_SHARED = 1, UP_VERSION };

static bool is_response (const char *p, size_t n) {
  while (n > 0 && (*p == '\r' || *p == '\n')) p++, n--; /* empty lines may stand before the start line */
  return n > 5 && memcmp(p, "HTTP/", 5) == 0;
}

/* The fields of the head at the top of the stack, which has been parsed once: it cannot fail. Pops the head. */
static void push_late_fields (lua_State *L) {
  size_t n;
  const char *base = lua_tolstring(L, -1, &n);
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) most += base[i] == '\n';
  pl_field *field = lpl_newuserdata(L, sizeof(pl_field) * most, 0);
  pl_head h;
  pl_head_init(&h, is_response(base, n) ? PL_RESPONSE : PL_REQUEST, (pl_head_limits){UINT32_MAX, most, UINT32_MAX},
               field);
  h.simd = get_cache(L, lua_upvalueindex(UP_SHARED))->simd;
  pl_head_step(&h, base, n);
  lpl_push_fields(L, lua_upvalueindex(UP_SHARED), &h, base, false);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* path and query are the target up to "?" and behind it. */
static void set_path (lua_State *L) {
  size_t n;
  lua_pushliteral(L, "target");
  if (lua_rawget(L, 1) != LUA_TSTRING) return;
  const char *t = lua_tolstring(L, -1, &n), *q = memchr(t, '?', n);
  if (q) lua_pushlstring(L, t, (size_t)(q - t));
  else lua_pushvalue(L, -1);
  lua_setfield(L, 1, "path");
  if (q) lua_pushlstring(L, q + 1, n - (size_t)(q + 1 - t));
  else lua_pushnil(L);
  lua_setfield(L, 1, "query");
}

static void set_fields (lua_State *L) {
  if (lua_rawgetp(L, 1, &head_key) != LUA_TSTRING) return;
  push_late_fields(L);
  lua_setfield(L, 1, "headers");
  lua_pushnil(L);
  lua_rawsetp(L, 1, &head_key);
}

/* Makes what the message at 1 has under this name, if it has. */
static void make (lua_State *L, const char *name) {
  if (strcmp(name, "headers") == 0) {
    set_fields(L);
  } else if (strcmp(name, "path") == 0 || strcmp(name, "query") == 0) {
    set_path(L);
  } else if (strcmp(name, "protocol_version") == 0) {
    lua_pushvalue(L, lua_upvalueindex(UP_VERSION));
    lua_setfield(L, 1, "protocol_version");
  }
}

/* Fennel's way to write the name at 2 becomes ours: protocol-version, keep-alive?; false when it is ours already. */
static bool snake (lua_State *L) {
  size_t n;
  const char *name = lua_tolstring(L, 2, &n);
  if (strpbrk(name, "-?") == NULL) return false;
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, n);
  for (size_t i = 0; i < n; i++) out[i] = (char)(name[i] == '-' ? '_' : name[i]);
  luaL_pushresultsize(&b, n > 0 && name[n - 1] == '?' ? n - 1 : n);
  lua_replace(L, 2);
  return true;
}

static int message_index (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  if (snake(L)) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, 1) != LUA_TNIL) return 1;
  }
  make(L, lua_tostring(L, 2));
  lua_pushvalue(L, 2);
  lua_rawget(L, 1);
  return 1;
}

static int message_next (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}

static int message_pairs (lua_State *L) {
  static const char *const late[] = {"headers", "path", "protocol_version"};
  luaL_checktype(L, 1, LUA_TTABLE);
  for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
    lua_settop(L, 1);
    lua_pushstring(L, late[i]);
    if (lua_rawget(L, 1) == LUA_TNIL) make(L, late[i]);
  }
  lua_pushcfunction(L, message_next);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

const char *lpl_framing_name (const pl_frame *f) {
  static const char *const name[] = {"none", "length", "chunked", "close"};
  return name[f->body];
}

const char *lpl_expect_name (const pl_frame *f) {
  static const char *const name[] = {NULL, "continue", "other"};
  return name[f->expect];
}

void lpl_push_about (lua_State *L, int idx, const pl_frame *f) {
  int key = ABOUTS + (((int)f->body * 3 + (int)f->expect) * 2 + f->keep_alive) * 2 + f->upgrade;
  if (lua_rawgeti(L, idx, key) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, lpl_framing_name(f));
  lua_setfield(L, -2, "framing");
  lua_pushboolean(L, f->keep_alive);
  lua_setfield(L, -2, "keep_alive");
  lua_pushstring(L, lpl_expect_name(f));
  lua_setfield(L, -2, "expect");
  lua_pushboolean(L, f->upgrade);
  lua_setfield(L, -2, "upgrade");
  lua_pushvalue(L, -1);
  lua_rawseti(L, idx, key);
}

static void set_string (lua_State *L, const char *key, const char *p, size_t n) {
  lua_pushlstring(L, p, n);
  lua_setfield(L, -2, key);
}

/* A message but for its fields. */
static void push_start (lua_State *L, const pl_head *h, const pl_frame *f, const char *base) {
  bool length = f->body == PL_BODY_LENGTH;
  lua_createtable(L, 0, length ? 4 : 3);
  if (h->kind == PL_REQUEST) {
    set_string(L, "method", base + h->method, h->method_len);
    set_string(L, "target", base + h->target, h->target_len);
  } else {
    lua_pushinteger(L, h->status);
    lua_setfield(L, -2, "status");
    set_string(L, "reason_phrase", base + h->reason, h->reason_len);
  }
  if (!length) return;
  lua_pushinteger(L, (lua_Integer)f->length);
  lua_setfield(L, -2, "length");
}

void lpl_push_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, const char *base, bool lower) {
  push_start(L, h, f, base);
  lpl_push_fields(L, idx, h, base, lower);
  lua_setfield(L, -2, "headers");
  lua_rawgeti(L, idx, MESSAGES + h->minor);
  lua_setmetatable(L, -2);
}

void lpl_push_late_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, int head) {
  push_start(L, h, f, lua_tostring(L, head));
  lua_pushvalue(L, head);
  lua_rawsetp(L, -2, &head_key);
  lua_rawgeti(L, idx, MESSAGES + h->minor);
  lua_setmetatable(L, -2);
}

/* The tables { name, major, minor } are shared by all messages. */
static void push_version (lua_State *L, int minor) {
  lua_createtable(L, 0, 3);
  lua_pushliteral(L, "HTTP");
  lua_setfield(L, -2, "name");
  lua_pushinteger(L, 1);
  lua_setfield(L, -2, "major");
  lua_pushinteger(L, minor);
  lua_setfield(L, -2, "minor");
}

/* The metatables of messages, one for each version; the shared table is on the top. */
static void set_messages (lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", message_index}, {"__pairs", message_pairs}, {NULL, NULL}};
  for (int minor = 0; minor < 10; minor++) {
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -2);
    push_version(L, minor);
    luaL_setfuncs(L, meta, 2);
    lua_rawseti(L, -2, MESSAGES + minor);
  }
}

void lpl_open_message (lua_State *L) {
  luaL_newmetatable(L, HEADERS);
  luaL_setfuncs(L, look_up, 0);
  protect(L);
  luaL_newmetatable(L, SHAPE);
  lua_pop(L, 2);
  lua_createtable(L, SHARED_SIZE, 1);
  cache *c = lpl_newuserdata(L, sizeof *c, 0);
  memset(c, 0, sizeof *c);
  c->simd = lpl_simd();
  lua_rawseti(L, -2, CACHE);
  set_messages(L);
  lua_setfield(L, LUA_REGISTRYINDEX, SHARED);
}
