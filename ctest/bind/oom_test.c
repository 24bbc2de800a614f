/* The binding without memory: each case of oom.lua runs with its first allocation failing, then its second, and so on
   until it passes. What may happen is an error "not enough memory" or nil, message, "no-memory"; afterwards nothing is
   left: no byte, no descriptor, no half-written file.

   PARTLINE_UNDER=valgrind: only every seventh allocation. */
#include "../ctest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

int luaopen_partline_core (lua_State *L);

/* ---- memory: every block knows its size, and growing always moves it ---- */

typedef enum failing {
  ONCE,    /* Lua collects garbage and gets it the second time; a buffer of ours does not */
  TWICE,   /* Lua raises, and all is well again */
  FOREVER,
  FAILINGS
} failing;

static const char *const failing_names[] = {"once", "twice", "from then on"};

typedef struct heap {
  size_t live;
  bool armed;           /* allocations count */
  unsigned long count;  /* so far */
  unsigned long fail;   /* number of the one that fails; 0: none */
  failing how;
} heap;

enum { HEADER = 16 };

static bool refused (heap *h) {
  if (!h->armed) return false;
  h->count++;
  if (h->fail == 0 || h->count < h->fail) return false;
  return h->how == FOREVER || h->count <= h->fail + (h->how == TWICE);
}

static size_t *size_of (char *block) { return (size_t *)(void *)(block - HEADER); }

static void release (heap *h, char *block) {
  size_t n = *size_of(block);
  h->live -= n;
  memset(block, 0xDD, n);
  free(block - HEADER);
}

static void *alloc (void *ud, void *ptr, size_t osize, size_t nsize) {
  heap *h = ud;
  char *old = ptr, *block;
  if (old && *size_of(old) != osize) CHECK_INT(osize, *size_of(old));
  if (nsize == 0) {
    if (old) release(h, old);
    return NULL;
  }
  if (old == NULL) osize = 0;
  if (nsize > osize && refused(h)) return NULL;
  block = malloc(nsize + HEADER);
  if (block == NULL) abort();
  block += HEADER;
  *size_of(block) = nsize;
  h->live += nsize;
  if (old) {
    memcpy(block, old, osize < nsize ? osize : nsize);
    release(h, old);
  }
  return block;
}

/* ---- what the cases need of the world ---- */

enum { FDS = 64, PAIRS = 32 };

static char dir[64];
static int pairs[PAIRS], npairs;

/* tool.pair(): two ends of a connection, closed after the run */
static int t_pair (lua_State *L) {
  int fd[2];
  if (npairs + 2 > PAIRS || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) return luaL_error(L, "no socket pair");
  for (int i = 0; i < 2; i++) {
    fcntl(fd[i], F_SETFL, O_NONBLOCK);
    pairs[npairs++] = fd[i];
    lua_pushinteger(L, fd[i]);
  }
  return 2;
}

static int t_send (lua_State *L) {
  size_t n;
  const char *p = luaL_checklstring(L, 2, &n);
  if (write((int)luaL_checkinteger(L, 1), p, n) != (ssize_t)n) return luaL_error(L, "cannot send");
  return 0;
}

static int t_shut (lua_State *L) {
  shutdown((int)luaL_checkinteger(L, 1), SHUT_RDWR);
  return 0;
}

static int t_drain (lua_State *L) {
  static char sink[65536];
  while (read((int)luaL_checkinteger(L, 1), sink, sizeof sink) > 0) {}
  return 0;
}

static void close_pairs (void) {
  while (npairs > 0) close(pairs[--npairs]);
}

static int open_descriptors (void) {
  int n = 0;
  for (int fd = 0; fd < FDS; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* Removes what lies in dir; the number of half-written files. */
static int sweep (void) {
  DIR *d = opendir(dir);
  struct dirent *e;
  int parts = 0;
  while (d && (e = readdir(d)) != NULL) {
    char path[400];
    if (e->d_name[0] == '.') continue;
    parts += strstr(e->d_name, ".part") != NULL;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    unlink(path);
  }
  if (d) closedir(d);
  return parts;
}

/* ---- one run ---- */

typedef struct script {
  char *p;
  size_t n;
} script;

static script bytecode;

static int add (lua_State *L, const void *p, size_t n, void *ud) {
  script *s = ud;
  (void)L;
  s->p = realloc(s->p, s->n + n);
  if (s->p == NULL) return 1;
  memcpy(s->p + s->n, p, n);
  s->n += n;
  return 0;
}

static void compile (void) {
  lua_State *L = luaL_newstate();
  if (luaL_loadfile(L, "ctest/bind/oom.lua") != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(2);
  }
  lua_dump(L, add, &bytecode, 0);
  lua_close(L);
}

static void push_tool (lua_State *L) {
  static const luaL_Reg functions[] = {
      {"pair", t_pair}, {"send", t_send}, {"shut", t_shut}, {"drain", t_drain}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_pushstring(L, dir);
  lua_setfield(L, -2, "dir");
}

static void open_libs (lua_State *L) {
  static const luaL_Reg libs[] = {{"_G", luaopen_base},       {"string", luaopen_string}, {"table", luaopen_table},
                                  {"coroutine", luaopen_coroutine}, {"io", luaopen_io},   {"os", luaopen_os},
                                  {NULL, NULL}};
  for (const luaL_Reg *l = libs; l->name; l++) {
    luaL_requiref(L, l->name, l->func, 1);
    lua_pop(L, 1);
  }
}

/* Leaves the table of cases at 1. */
static void load_cases (lua_State *L) {
  open_libs(L);
  if (luaL_loadbuffer(L, bytecode.p, bytecode.n, "@ctest/bind/oom.lua") != LUA_OK) return;
  luaL_requiref(L, "partline.core", luaopen_partline_core, 0);
  push_tool(L);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
}

static int open_core (lua_State *L) {
  luaL_requiref(L, "partline.core", luaopen_partline_core, 0);
  return 0;
}

/* The function of case i (0: opening the module itself) on the top. */
static void push_case (lua_State *L, int i) {
  if (i == 0) {
    lua_pushcfunction(L, open_core);
    return;
  }
  lua_rawgeti(L, 1, i);
  lua_rawgeti(L, -1, 2);
  lua_remove(L, -2);
}

static bool lacks_memory (lua_State *L) {
  const char *s = NULL;
  if (lua_type(L, -1) == LUA_TSTRING) s = lua_tostring(L, -1);
  else if (lua_istable(L, -1) && lua_getfield(L, -1, "code") == LUA_TSTRING) s = lua_tostring(L, -1);
  bool ok = s && (strstr(s, "not enough memory") || strcmp(s, "no-memory") == 0 ||
                  strstr(s, "stack overflow")); /* luaL_checkstack says so of both */
  if (!ok) fprintf(stderr, "\nfailed with: %s\n", s ? s : luaL_typename(L, -1));
  return ok;
}

/* One call of the case; its failure must be for want of memory. */
static void call_case (lua_State *L, int i, bool may_fail) {
  lua_settop(L, 1);
  push_case(L, i);
  int status = lua_pcall(L, 0, 0, 0);
  if (status == LUA_OK) {
    CHECK(true);
    return;
  }
  bool excused = lacks_memory(L);
  CHECK(excused && may_fail);
}

/* False when there was nothing left to fail. */
static bool run (int i, failing how, unsigned long n) {
  heap h = {.how = how, .fail = n};
  int fds = open_descriptors();
  lua_State *L = lua_newstate(alloc, &h);
  if (i > 0) load_cases(L);
  else lua_pushnil(L);
  h.armed = true;
  call_case(L, i, n != ULONG_MAX);
  bool failed = h.count >= n;
  if (how != FOREVER) { /* memory is there again */
    h.armed = false;
    call_case(L, i, false);
  }
  lua_close(L);
  close_pairs();
  CHECK_INT(h.live, 0);
  CHECK_INT(open_descriptors(), fds);
  CHECK_INT(sweep(), 0);
  return failed;
}

static int count_cases (void) {
  heap h = {0};
  lua_State *L = lua_newstate(alloc, &h);
  load_cases(L);
  int n = lua_istable(L, 1) ? (int)lua_rawlen(L, 1) : -1;
  lua_close(L);
  return n;
}

static const char *case_name (int i, char name[80]) {
  heap h = {0};
  strcpy(name, "opening the module");
  if (i == 0) return name;
  lua_State *L = lua_newstate(alloc, &h);
  load_cases(L);
  lua_rawgeti(L, 1, i);
  lua_rawgeti(L, -1, 1);
  snprintf(name, 80, "%s", lua_tostring(L, -1));
  lua_close(L);
  return name;
}

int main (int argc, char **argv) {
  const char *under = getenv("PARTLINE_UNDER");
  unsigned long stride = under && strcmp(under, "valgrind") == 0 ? 7 : 1;
  int only = argc > 1 ? atoi(argv[1]) : -1;
  signal(SIGPIPE, SIG_IGN);
  snprintf(dir, sizeof dir, "/tmp/partline-oom-XXXXXX");
  if (mkdtemp(dir) == NULL) return 2;
  compile();
  int cases = count_cases();
  CHECK(cases > 0);
  for (int i = 0; i <= cases; i++) {
    char name[80];
    if (only >= 0 && i != only) continue;
    case_name(i, name);
    ct_how("%s", name);
    run(i, ONCE, ULONG_MAX);
    if (ct.failed) continue; /* the case itself is wrong */
    for (failing how = ONCE; how < FAILINGS; how++) {
      unsigned long n = 1;
      do ct_how("%s: allocation %lu fails %s", name, n, failing_names[how]);
      while (run(i, how, n) && (n += stride) < 100000);
      if (getenv("OOM_VERBOSE")) fprintf(stderr, "%s: %lu allocations, %s\n", name, n, failing_names[how]);
    }
  }
  ct_how(NULL);
  rmdir(dir);
  free(bytecode.p);
  return ct_done();
}
