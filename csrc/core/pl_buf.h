/* A byte queue: reserve and commit at one end, peek and skip at the other. Memory comes from the owner's allocator. */
#ifndef PL_BUF_H
#define PL_BUF_H

#include "pl_base.h"

/* The contract of lua_Alloc: resizes ptr from osize to nsize, frees at nsize 0, NULL when it cannot. */
typedef void *(*pl_alloc) (void *ud, void *ptr, size_t osize, size_t nsize);

typedef struct pl_buf {
  char *mem;
  size_t r, w; /* [r, w) is the content */
  size_t cap;
  size_t max;  /* hard limit of the content; 0: none */
  size_t scan; /* how much of the content pl_buf_line has searched */
  pl_alloc alloc;
  void *ud;
} pl_buf;

void pl_buf_init (pl_buf *b, pl_alloc alloc, void *ud, size_t max);

/* Room for n more bytes at the end, or NULL: over the limit or out of memory (content stays). Moves the content. */
char *pl_buf_reserve (pl_buf *b, size_t n);

/* Room that is there now without growing or moving: what a commit may take at most. */
static inline size_t pl_buf_room (const pl_buf *b) { return b->cap - b->w; }

/* n of the reserved bytes are content now. */
static inline void pl_buf_commit (pl_buf *b, size_t n) { b->w += n; }

static inline pl_slice pl_buf_peek (const pl_buf *b) {
  return (pl_slice){b->mem ? b->mem + b->r : "", b->w - b->r};
}

static inline size_t pl_buf_len (const pl_buf *b) { return b->w - b->r; }

/* Drops n <= pl_buf_len bytes from the front. */
void pl_buf_skip (pl_buf *b, size_t n);

/* reserve, copy and commit; false as reserve's NULL. */
bool pl_buf_append (pl_buf *b, const char *p, size_t n);

/* The length of the first line, its LF included, or 0: no whole line yet. No byte is searched twice. */
size_t pl_buf_line (pl_buf *b);

/* Gives the memory back and drops the content. May be called again and again. */
void pl_buf_free (pl_buf *b);

#endif
