/* The tables that Lua sees of a head: fields, request, response. */
#ifndef LPL_MESSAGE_H
#define LPL_MESSAGE_H

#include "lpl.h"

/* What is made once and shared by all messages of a Lua state: a table. Functions on a hot path have it as an upvalue,
   the others push it; idx below is where it stands. */
void lpl_push_shared (lua_State *L);

/* In the shared table: at [1] to [LPL_SHAPES] the shapes of tables of fields and behind them their inside, which
   LPL_CACHE knows; at LPL_MESSAGES metatables of messages, one for each version; at LPL_ABOUTS what lpl_push_about
   gives. */
enum { LPL_CACHE = 0,
       LPL_SHAPES = 128,
       LPL_MESSAGES = 2 * LPL_SHAPES + 1,
       LPL_ABOUTS = LPL_MESSAGES + 10,
       LPL_ABOUTS_TOLD = LPL_ABOUTS + 192,
       LPL_SHARED_SIZE = LPL_ABOUTS_TOLD + 192 };

/* Pushes the table of fields, which remembers their order. base: the bytes that the head describes, which stay where
   they are. lower: names in lower case. */
void lpl_push_fields (lua_State *L, int idx, const pl_head *h, const char *base, bool lower);
void lpl_push_headers (lua_State *L, const pl_head *h, const char *base); /* pushes the shared table itself */

/* Pushes the table of a request or response, without a body: method and target, or status and reason_phrase, length if
   there is one, headers. It answers to path, query and protocol_version and to kebab-case names too, and pairs shows
   them. */
void lpl_push_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, const char *base, bool lower);

/* The same, but headers is built when it is first asked for. head: where the string of the head's bytes stands. */
void lpl_push_late_message (lua_State *L, int idx, const pl_head *h, const pl_frame *f, int head);

/* Pushes what else the head says, a table shared by all messages of which the same can be said: framing ("none" |
   "length" | "chunked" | "close"), keep_alive, expect (nil | "continue" | "other"), upgrade, http10, coded (there is a
   Content-Encoding), and plain: no body, and nothing of that which is not the rule of HTTP/1.1. Those
   that programs are told are others than ours, which must not be changed. */
typedef enum lpl_abouts { LPL_OURS = LPL_ABOUTS, LPL_TOLD = LPL_ABOUTS_TOLD } lpl_abouts;
void lpl_push_about (lua_State *L, int idx, lpl_abouts whose, const pl_head *h, const pl_frame *f);

/* What a response to this method (NULL: unknown) may lack. */
pl_asked lpl_asked (const char *method);
const char *lpl_framing_name (const pl_frame *f);
const char *lpl_expect_name (const pl_frame *f);

/* Pushes the table of a part: name, filename, ["filename*"], type, length. form: names decode as browsers encode them.
   True when the content is chunked. In lpl_mpart.c. */
bool lpl_push_part (lua_State *L, const pl_head *h, const char *base, bool form);

/* headers.wrap(t): t with look-up that ignores case */
int lpl_headers_wrap (lua_State *L);

/* headers.order(t): the names as received, with repeats, and the values when a name came more than once; nothing for a
   table that was not received */
int lpl_headers_order (lua_State *L);

void lpl_open_message (lua_State *L);
void lpl_open_fields (lua_State *L); /* for the shared table on the top */

#endif
