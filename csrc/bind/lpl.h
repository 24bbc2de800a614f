/* What the binding's files share: the Reader's inside, errors as Lua values, userdata that Lua 5.3 to 5.5 all know. */
#ifndef LPL_H
#define LPL_H

#include "lauxlib.h"
#include "lua.h"

#include "pl_buf.h"
#include "pl_chunk.h"
#include "pl_framing.h"
#include "pl_head.h"
#include "pl_mpart.h"

/* ---- Lua 5.3 has one user value: a table stands for several there ---- */
void *lpl_newuserdata (lua_State *L, size_t size, int nuvalue);
void lpl_getuv (lua_State *L, int idx, int n); /* pushes user value n */
void lpl_setuv (lua_State *L, int idx, int n); /* pops it */

/* ---- errors ---- */
/* Pushes nil, message, code; returns 3. at: byte offset, or LPL_NOWHERE. */
#define LPL_NOWHERE UINT64_MAX
int lpl_fail (lua_State *L, pl_err e, uint64_t at);
/* Pushes nil, message of errno, code; returns 3. */
int lpl_fail_errno (lua_State *L, pl_err e, int errnum);
/* Turns the nil, message, code on the top into a raised error object { code, status, message }. */
int lpl_raise (lua_State *L);

/* ---- Reader ---- */
#define LPL_READER "partline.reader"

typedef struct lpl_reader lpl_reader;

/* Where a Reader's bytes come from. None of these touches Lua or waits. */
typedef struct lpl_source {
  const char *name;
  /* PL_DATA: *s is what lies ahead, at least one byte | PL_MORE: somebody has to wait | PL_END | PL_FAIL: r->err set */
  pl_got (*pull) (lpl_reader *r, pl_slice *s);
  /* n bytes of what pull showed are used */
  void (*took) (lpl_reader *r, size_t n);
  /* instead of the two: reads straight into r->q; same answers */
  pl_got (*fill) (lpl_reader *r, size_t want);
  /* bytes left, or -1 when nobody knows; what is in r->q not counted. NULL: nobody ever knows */
  int64_t (*length) (const lpl_reader *r);
  /* false: not even what is in r->q may be given any more, r->err set. NULL: it always may */
  bool (*valid) (lpl_reader *r);
} lpl_source;

/* User values of a Reader. */
enum {
  LPL_UV_UP = 1,  /* the Reader below, or what the memory belongs to: string, file handle, socket, iterator of parts */
  LPL_UV_CALL,    /* function that gives the next piece, or function(fd, mode, deadline) that waits */
  LPL_UV_PIECE,   /* piece that the function gave last */
  LPL_UV_MESSAGE, /* message and code of a failed source */
  LPL_UV_CODE,
  LPL_UV_HOOK,    /* function called once before the first wait */
  LPL_UV_DONE,    /* function called when it is closed */
  LPL_UV_COUNT = LPL_UV_DONE
};

typedef enum lpl_claim { LPL_FREE, LPL_DIRECT, LPL_PARTS } lpl_claim;

struct lpl_reader {
  const lpl_source *src; /* NULL: born, nothing acquired yet */
  pl_buf q;              /* bytes taken from the source and not given out yet: one contiguous piece */
  lpl_reader *up;        /* the Reader below; kept alive by LPL_UV_UP */
  pl_err err;
  uint64_t err_at;
  int os_error;
  bool closed, ended;
  bool late;             /* a timeout was told since, and forgotten */
  bool hook;             /* LPL_UV_HOOK is set */
  bool done;             /* LPL_UV_DONE is set */
  bool finalised;        /* nobody will finalise it again: it acquires no more */
  uint8_t height;        /* Readers below */
  uint8_t claim;         /* lpl_claim: who reads a body that has parts */
  uint64_t max_all;      /* most that read("a") and a line may gather; 0: no limit */
  uint64_t given;        /* bytes given out */
  uint32_t closes;       /* how often it was closed, for lpl_mark */
  size_t safe;           /* of the bytes ahead in up, so many are known to be ours */
  union {
    struct { const char *p; size_t n; } mem;                    /* string, or a function's current piece */
    struct { const char *p; size_t n; int empties; bool hint, over; } fn;
    struct { void *stream; int64_t left; bool own, live; } file; /* luaL_Stream; left -1: to its end; live: may wait */
    struct {
      int fd;
      const int *live;
      size_t size, run, once;
      double timeout, deadline, then;
      bool drained, waiting;
      signed char luck; /* less than 0: that often an answer is not looked for before it is waited for */
    } sock;
    struct { uint64_t left; bool exact; } limit;
    struct { pl_chunk c; pl_buf trailer; pl_head head; } chunked; /* the fields lie behind the Reader */
    struct { void *parts; uint64_t generation; } part;
  } u;
};

/* Bytes ahead without waiting: PL_DATA (*s is not empty) | PL_MORE | PL_END | PL_FAIL (r->err). */
pl_got lpl_view (lpl_reader *r, pl_slice *s);
/* Uses n of the bytes that lpl_view showed. */
void lpl_skip (lpl_reader *r, size_t n);
/* Pushing what lpl_view shows may run finalisers, and they may read or close any Reader. So the mark of before goes with
   the number of bytes that are used afterwards: raises when they are not ahead any more. */
uint64_t lpl_mark (const lpl_reader *r);
void lpl_use (lua_State *L, lpl_reader *r, size_t n, uint64_t mark);
/* Makes what lpl_view shows longer, all in one piece: PL_DATA when it did. Moves the bytes. */
pl_got lpl_extend (lpl_reader *r, size_t want);

lpl_reader *lpl_checkreader (lua_State *L, int idx);
/* A new harmless Reader on the top of the stack. */
lpl_reader *lpl_newreader (lua_State *L);
/* Puts r over up, which a user value keeps alive; raises when the pile is too high for the C stack. */
void lpl_put_over (lua_State *L, lpl_reader *r, lpl_reader *up);
/* A chunked decoder over the Reader at idx, on the top of the stack. */
lpl_reader *lpl_push_chunked (lua_State *L, int idx, bool lenient);
/* nil, message, code for the failure of the Reader at idx; returns 3. */
int lpl_reader_fail (lua_State *L, int idx);

/* Waiting, in two halves around a lua_callk of three results: pushes function and arguments and returns their number;
   takes the three results. idx is absolute. */
int lpl_wait_begin (lua_State *L, int idx);
void lpl_wait_end (lua_State *L, int idx);
enum { LPL_WAIT_RESULTS = 3, LPL_WAIT = -1 };

/* ---- others ---- */
double lpl_now (void); /* monotonic seconds */
/* The vector set to use: the best one, or what the environment variable PARTLINE_SIMD names ("off": the portable one). */
const struct pl_simd *lpl_simd (void);
/* A head is presented again and again while it grows, n bytes of it this time: when another coroutine has used some of
   it meanwhile, it begins anew. */
static inline void lpl_head_again (pl_head *h, size_t n) {
  if (h->bytes == 0 && n < (size_t)h->line + h->scan) pl_head_reset(h);
}
/* A limit of the table at idx (none: nil) by its name, or the default; at most 2^30. */
uint32_t lpl_limit (lua_State *L, int idx, const char *name, uint32_t def);

int lpl_open_reader (lua_State *L);
int lpl_open_head (lua_State *L);
int lpl_open_mpart (lua_State *L);
int lpl_open_text (lua_State *L);
int lpl_open_writer (lua_State *L);
int lpl_open_poll (lua_State *L);
int lpl_open_push (lua_State *L); /* after lpl_open_head */
int lpl_open_url (lua_State *L);
int lpl_open_random (lua_State *L);

#endif
