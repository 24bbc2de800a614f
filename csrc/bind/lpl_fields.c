/* The table of fields that Lua sees of a head, and the order it remembers.

   Most heads of a connection, and of a server, have the same names in the same order, and many the same values. So the
   names of a table of fields are kept as its shape: its metatable, which holds them as Lua strings in their order and
   is shared by all tables of that shape. A head of a known shape costs one comparison of its names; no string is made
   of them, no repeat is looked for, and the order costs nothing to remember. A shape also keeps the value that each
   field had last, if it is short and not secret, for the next head that says the same. A head with repeated names, or a
   very large one, has a metatable of its own, which holds all values too. */
#include <string.h>

#include "lpl_message.h"

#define HEADERS "partline.headers" /* class of tables that were not received */
#define SHAPE "partline.shape"     /* class of what stands at [SELF] in a shape */

/* What shapes may hold: at most a few MiB in all, whatever the peers send. */
enum {
  SLOTS = LPL_SHAPES, /* known at a time; a new one takes the place of an old one */
  SHAPE_FIELDS = 48,  /* a head with more, or with more bytes of names, has its own */
  SHAPE_BYTES = 1024,
  VALUE_BYTES = 128,  /* longer values are not kept */
  MISSES_MAX = 16     /* other values in a row: this one varies, none is kept any more */
};

/* In a shape and in its inside: at [1] to [n] the names, behind them values, and */
enum { SELF = 0 };

/* What is known of a field of a shape. The strings lie in the inside, a table that no program can reach. */
typedef struct place {
  uint16_t name_len;
  uint8_t misses;
  uint32_t value_len; /* NO_VALUE: none is kept */
  const char *value;  /* of the Lua string at [n + 1] and up */
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
  int last;         /* slot of the head before */
} cache;

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
  lua_createtable(L, (int)h->nfields * (shared ? 1 : 2), 5);
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

/* The inside of the shape on the top, on top of it. */
static void push_inside (lua_State *L, const pl_head *h) {
  lua_createtable(L, (int)h->nfields * 2, 1);
  for (uint32_t i = 0; i <= h->nfields; i++) { /* SELF too */
    lua_rawgeti(L, -2, (lua_Integer)i);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
}

/* The slot of a head whose shape is known, or else ~slot, or ~SLOTS when it cannot be kept. */
static int find_slot (const cache *c, const pl_head *h, const char *base, bool lower) {
  if (c->at[c->last] && same_shape(c->at[c->last], h, base, lower)) return c->last;
  int slot = slot_of(h, base, lower);
  if (slot < 0) return ~SLOTS;
  return c->at[slot] && same_shape(c->at[slot], h, base, lower) ? slot : ~slot;
}

/* Pushes the shape of a head, made if need be, and its inside; NULL and nothing: it cannot be shared. */
static shape *push_known_shape (lua_State *L, int idx, const pl_head *h, const char *base, bool lower) {
  lua_rawgeti(L, idx, LPL_CACHE);
  cache *c = lua_touserdata(L, -1);
  lua_pop(L, 1);
  int slot = find_slot(c, h, base, lower);
  if (slot >= 0) {
    c->last = slot;
    lua_rawgeti(L, idx, slot + 1);
    lua_rawgeti(L, idx, SLOTS + slot + 1);
    return c->at[slot];
  }
  slot = ~slot;
  if (slot == SLOTS || has_repeats(h, base)) return NULL;
  shape *s = push_shape(L, h, base, lower, true);
  push_inside(L, h);
  lua_pushvalue(L, -2);
  lua_rawseti(L, idx, slot + 1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, idx, SLOTS + slot + 1);
  c->at[slot] = s;
  c->last = slot;
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

/* The value of field i, which may be the one of the head before; below: the shape, its inside, the table of fields and
   the name. */
static void push_kept (lua_State *L, shape *s, uint32_t i, const pl_field *f, const char *base) {
  place *k = &s->at[i];
  if (k->value_len == f->value_len && same_bytes(k->value, base + f->value, f->value_len)) {
    k->misses = 0;
    lua_rawgeti(L, -3, (lua_Integer)s->n + i + 1);
    return;
  }
  push_first(L, f, base);
  if (k->misses == MISSES_MAX || f->value_len > VALUE_BYTES || f->folded) return;
  bool varies = ++k->misses == MISSES_MAX;
  if (varies) lua_pushnil(L);
  else lua_pushvalue(L, -1);
  lua_rawseti(L, -5, (lua_Integer)s->n + i + 1);
  k->value = lua_tostring(L, -1);
  k->value_len = varies ? NO_VALUE : f->value_len;
}

void lpl_push_fields (lua_State *L, int idx, const pl_head *h, const char *base, bool lower) {
  luaL_checkstack(L, 9, NULL);
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
  lua_pushvalue(L, -3);
  lua_setmetatable(L, -2);
  lua_replace(L, -3);
  lua_pop(L, 1);
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

void lpl_open_fields (lua_State *L) {
  luaL_newmetatable(L, HEADERS);
  luaL_setfuncs(L, look_up, 0);
  protect(L);
  luaL_newmetatable(L, SHAPE);
  lua_pop(L, 2);
  memset(lpl_newuserdata(L, sizeof(cache), 0), 0, sizeof(cache));
  lua_rawseti(L, -2, LPL_CACHE);
}
