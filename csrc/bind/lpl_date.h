/* The Date field of this second. */
#ifndef LPL_DATE_H
#define LPL_DATE_H

#include <time.h>

#include "lua.h"

enum { LPL_DATE_LINE = 37 };

typedef struct lpl_date {
  time_t at; /* -1: no line yet */
  char line[LPL_DATE_LINE];
} lpl_date;

/* "Date: <IMF-fixdate>\r\n", RFC 9110 6.6.1 and 5.6.7. */
const char *lpl_date_line (lpl_date *d);

/* Pushes the function that gives it to Lua. */
void lpl_push_date_line (lua_State *L);

#endif
