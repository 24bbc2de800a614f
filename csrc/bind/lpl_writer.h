/* The Writer's inside, for Reader:copy. */
#ifndef LPL_WRITER_H
#define LPL_WRITER_H

#include "lpl.h"

#define LPL_WRITER "partline.writer"

typedef struct lpl_writer {
  pl_buf q;      /* accepted, not sent yet */
  bool ready, closed, through_call; /* through_call: no descriptor, a function takes the bytes */
  pl_err err;
  int os_error;
  int fd;
  const int *live;
  bool full;     /* the last attempt found no room */
  double timeout;
  size_t keep;   /* gather so many bytes before sending */
  size_t run;    /* bytes sent since the last wait */
  uint64_t sent;
} lpl_writer;

enum { LPL_UV_SOCK = 1, LPL_UV_SEND, LPL_WRITER_UV_COUNT = LPL_UV_SEND };

/* Takes up to n bytes: *taken of them. PL_END: all | PL_MORE: wait, then call again with the rest | PL_FAIL. */
pl_got lpl_writer_put (lpl_writer *w, const char *p, size_t n, size_t *taken);
/* Sends what was gathered. PL_END: all is sent | PL_MORE: wait, then call again | PL_FAIL. */
pl_got lpl_writer_flush (lpl_writer *w);

/* Can bytes be sent at once, behind nothing? */
bool lpl_writer_free (lpl_writer *w);
/* Sends both, of a free Writer; what the system does not take is gathered, for a flush, which also tells of a failure.
   True when all is sent. */
bool lpl_writer_send_both (lpl_writer *w, pl_slice a, pl_slice b);

/* Behind what is waiting already, for a flush; false without memory. */
bool lpl_writer_gather (lpl_writer *w, pl_slice s);

/* The two halves of a wait of the Writer at idx (absolute), around a lua_callk of three results. */
int lpl_writer_wait_begin (lua_State *L, int idx);
void lpl_writer_wait_end (lua_State *L, int idx);
/* nil, message, code; returns 3. */
int lpl_writer_fail (lua_State *L, const lpl_writer *w);

/* A Writer over a plain LuaSocket object at idx, pushed; false and nothing pushed when it is something else. */
bool lpl_writer_for_socket (lua_State *L, int idx);

#endif
