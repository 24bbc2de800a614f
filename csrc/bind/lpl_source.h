/* The sources of lpl_source.c, for the constructors in lpl_reader_new.c and for parts. */
#ifndef LPL_SOURCE_H
#define LPL_SOURCE_H

#include "lpl.h"

extern const lpl_source lpl_from_string, lpl_from_function, lpl_from_file, lpl_from_socket, lpl_from_limit,
    lpl_from_chunked;

void lpl_socket_init (lpl_reader *r, int fd, const int *live);

/* The next read from the socket at the bottom of r takes at most n > 0 bytes. */
void lpl_socket_once (lpl_reader *r, size_t n);

/* Around a wait for r, a socket's Reader: somebody has waited; nothing lies in the socket. */
void lpl_socket_woken (lpl_reader *r);
bool lpl_socket_drained (const lpl_reader *r);
/* From now on so many seconds are left for all reads of r, a socket's Reader. */
void lpl_socket_deadline (lpl_reader *r, double seconds);

/* Bytes left, the queue included; -1: unknown. */
int64_t lpl_length (const lpl_reader *r);

/* pull and took of a Reader whose next r->safe bytes in r->up are its own. */
pl_got lpl_pull_safe (lpl_reader *r, pl_slice *s);
void lpl_took_safe (lpl_reader *r, size_t n);

#endif
