/* What the files of the Reader class share: each adds what it has to the table on the top. */
#ifndef LPL_READER_H
#define LPL_READER_H

#include "lpl.h"

void lpl_set_readers (lua_State *L); /* the constructors: lpl_reader_new.c */
void lpl_set_reads (lua_State *L);   /* the methods that read, and may wait: lpl_reader_read.c */
void lpl_set_state (lua_State *L);   /* the methods that do not: lpl_reader_state.c */

#endif
