/* Push parsers: what their files share. */
#ifndef LPL_PUSH_H
#define LPL_PUSH_H

#include "lpl_message.h"

/* Adds parse_request and parse_response to the table on the top. */
void lpl_set_parse (lua_State *L);

/* ---- the parser ---- */

/* User values: callbacks, the sink of the live part, the failure of a callback. */
enum { UV_HEAD = 1, UV_INTERIM, UV_BODY, UV_TRAILERS, UV_FINISH, UV_CALLBACKS = UV_FINISH,
       UV_WRITE, UV_OBJECT, UV_END, /* function, what it is a method of, function called at the end */
       UV_INTO,                     /* function that sets these three */
       UV_MESSAGE, UV_CODE, UV_COUNT = UV_CODE };

#define UV_PART UV_HEAD

/* What is expected next. */
typedef enum state {
  HEAD,     /* start line and fields of a message */
  LENGTH,   /* left bytes of content */
  CHUNKED,  /* chunked coding and trailers */
  CLOSE,    /* content up to the end of input */
  PARTS,    /* multipart */
  FINISH,   /* nothing: on_finish is due */
  OVER,     /* the next feed, with the next message */
  UPGRADED, /* nothing we could read */
  EPILOGUE, /* bytes behind the last part, to be dropped */
  FAILED    /* sticky: err, or what a callback said */
} state;

/* Bytes ahead: some that were kept, then the input. What a Lua string holds is used where it lies; only the unfinished
   end of it is kept. */
typedef struct lane {
  pl_buf kept;
  const char *p; /* the input: n bytes, at used */
  size_t n, at;
  size_t joined; /* bytes of the input that are behind the kept ones, in kept, for the moment */
} lane;

typedef enum coding { PLAIN, CODED, CODED_OVER } coding;

typedef struct lpl_push {
  state state, after; /* after: behind FINISH */
  bool parts;         /* multipart */
  bool busy;          /* feed or finish has not returned: it runs, or waits, or a callback has raised */
  bool paused, closed, eof, lower;
  pl_asked asked;
  pl_err err;
  uint64_t err_at;
  lane in, part;      /* part: chunked content of a part */
  uint64_t left, body, max_body;
  size_t safe;        /* bytes ahead that are content of the live part */
  coding coding;      /* of the live part's content */
  pl_frame frame;
  pl_head head, trailer;
  pl_chunk chunk;
  pl_mpart mpart;
  pl_field field[1];  /* of head, and once that is told, of trailer; behind them the delimiter */
} lpl_push;

/* The stack of feed and finish; above it only what is being called. Upvalue: the shared table of lpl_message.h. */
enum { SELF = 1, INPUT };
#define SHARED lua_upvalueindex(1)

/* What a step answers: the number of arguments of a call that is on the stack, or */
enum { AGAIN = -1, STOP = -2 };

/* ---- lanes: lpl_lane.c ---- */

/* *s: what lies ahead, in one piece. False without memory. */
bool lpl_look (lane *l, pl_slice *s);

/* n of the bytes that look showed are used; keep: the others are wanted again with more behind them. They stay where
   they are until the next look. False without memory. */
bool lpl_settle (lane *l, size_t n, bool keep);

static inline bool lpl_exhausted (const lane *l) { return l->at == l->n; }

/* ---- steps ---- */

/* Answers of a step: a failure; too little is ahead (at: offset of what does not come). */
int lpl_push_fail (lpl_push *p, pl_err e, uint64_t at);
int lpl_push_lack (lpl_push *p, uint64_t at);
static inline int lpl_push_no_memory (lpl_push *p) { return lpl_push_fail(p, PL_E_NO_MEMORY, LPL_NOWHERE); }

/* Pushes a user value unless it is nil. */
bool lpl_push_callback (lua_State *L, int which);

/* Pushes a piece of the input, or of what was kept. */
void lpl_push_piece (lua_State *L, pl_slice s);

/* One step of a multipart body, and into(sink), which has the parser as upvalue: lpl_push_parts.c. */
int lpl_parts_step (lua_State *L, lpl_push *p);
int lpl_parts_into (lua_State *L);

#endif
