/* Reader:copy and Reader:save. */
#ifndef LPL_COPY_H
#define LPL_COPY_H

#include "lpl.h"

/* Both want the Reader at 1 and the sink (a path, for save) at 2, nothing else; return the number of answers.
   copy: at most n bytes. May yield. */
int lpl_copy (lua_State *L, lua_Integer n);
int lpl_save (lua_State *L);

/* Registers the class of files being saved. */
void lpl_copy_open (lua_State *L);

#endif
