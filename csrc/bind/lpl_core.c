/* luaopen_partline_core: one table with a field per class, nothing else. */
#include "lpl.h"

int luaopen_partline_core (lua_State *L);

int luaopen_partline_core (lua_State *L) {
  static const luaL_Reg classes[] = {
      {"reader", lpl_open_reader}, {"head", lpl_open_head},     {"multipart", lpl_open_mpart},
      {"text", lpl_open_text},     {"writer", lpl_open_writer}, {"push", lpl_open_push}, {"poll", lpl_open_poll},
      {"url", lpl_open_url},       {"random", lpl_open_random},
      {NULL, NULL},
  };
  luaL_checkversion(L);
  lua_newtable(L);
  int core = lua_gettop(L);
  for (const luaL_Reg *c = classes; c->name; c++) {
    c->func(L); /* leaves the class's table on the top */
    lua_setfield(L, core, c->name);
    lua_settop(L, core);
  }
  return 1;
}
