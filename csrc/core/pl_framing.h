/* Where a message body ends, decided once from its head (RFC 9112 6.3), and what the head says of the connection.
   Pure: a head goes in, an answer comes out. */
#ifndef PL_FRAMING_H
#define PL_FRAMING_H

#include "pl_head.h"

typedef enum pl_body {
  PL_BODY_NONE,    /* no body follows the head */
  PL_BODY_LENGTH,  /* exactly f->length bytes */
  PL_BODY_CHUNKED, /* chunked coding */
  PL_BODY_CLOSE    /* response: up to the end of the connection */
} pl_body;

typedef enum pl_expect { PL_EXPECT_NONE, PL_EXPECT_CONTINUE, PL_EXPECT_OTHER } pl_expect;

/* The method of the request that a response answers, as far as framing asks for it. */
typedef enum pl_asked { PL_ASKED_OTHER, PL_ASKED_HEAD, PL_ASKED_CONNECT } pl_asked;

typedef struct pl_frame {
  pl_body body;
  uint64_t length;  /* PL_BODY_LENGTH; at most INT64_MAX */
  bool keep_alive;  /* the connection may carry another message */
  bool upgrade;     /* Connection: upgrade with an Upgrade field; a 101; a 2xx to CONNECT */
  pl_expect expect; /* request */
  uint32_t seen;    /* bit n: the head has a field of pl_field_id n */
  pl_err err;
  uint32_t err_at;  /* offset of the field at fault */
} pl_frame;

/* p: the bytes of the head. PL_OK or the error, also in f->err. Checks Host and the target's form as well. */
pl_err pl_frame_request (const pl_head *h, const char *p, pl_frame *f);
pl_err pl_frame_response (const pl_head *h, const char *p, pl_asked asked, pl_frame *f);

/* False for fields that a trailer section may not carry: framing, routing, authentication, content (RFC 9110 6.5.1). */
bool pl_trailer_allowed (pl_slice name);

#endif
