/* One go at a head from a Reader, for head:read, which waits, and for serve, which does not. */
#ifndef LPL_HEAD_H
#define LPL_HEAD_H

#include "lpl_message.h"

#define LPL_HEAD "partline.head"

/* What a read is about, and where on the stack things stand: the parser, the Reader, the shared table, and the memory of
   this read, nil as long as no byte of the head has come. */
typedef struct lpl_read {
  int self, from, shared, memory;
  pl_head_kind kind;
  pl_asked asked;
  bool late; /* headers are built when they are asked for */
} lpl_read;

/* The number of answers: message, about (see lpl_push_about) | nil at a clean end | nil, message, code; or LPL_WAIT. */
int lpl_read_once (lua_State *L, const lpl_read *a, lpl_reader *r);

/* Is what stands at idx the memory of a read with the head at `head`? */
bool lpl_is_memory (lua_State *L, int idx, int head);

/* In lpl_serve.c: the class of what it shares with a server, and head.server. */
void lpl_serve_open (lua_State *L);
int lpl_serve_new (lua_State *L);

/* head:ask, with the shared table as its upvalue; in lpl_ask.c */
int lpl_head_ask (lua_State *L);

#endif
