/* The Date field of this second, made once a second. strftime would ask the locale. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lpl_date.h"

#include <string.h>

#include "lpl.h"

static char *put (char *to, const char *p, size_t n) {
  memcpy(to, p, n);
  return to + n;
}

static char *put_digits (char *to, int value, int digits) {
  for (int i = digits; i-- > 0; value /= 10) to[i] = (char)('0' + value % 10);
  return to + digits;
}

static void set_line (lpl_date *d) {
  static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  struct tm t;
  if (gmtime_r(&d->at, &t) == NULL) memset(&t, 0, sizeof t);
  char *to = put(d->line, "Date: ", 6);
  to = put(to, days + 3 * t.tm_wday, 3);
  to = put_digits(put(to, ", ", 2), t.tm_mday, 2);
  to = put(put(to, " ", 1), months + 3 * t.tm_mon, 3);
  to = put_digits(put(to, " ", 1), t.tm_year + 1900, 4);
  to = put_digits(put(to, " ", 1), t.tm_hour, 2);
  to = put_digits(put(to, ":", 1), t.tm_min, 2);
  to = put_digits(put(to, ":", 1), t.tm_sec, 2);
  put(to, " GMT\r\n", 6);
}

const char *lpl_date_line (lpl_date *d) {
  time_t now = time(NULL);
  if (now != d->at) {
    d->at = now;
    set_line(d);
  }
  return d->line;
}

static int date_line (lua_State *L) {
  lua_pushlstring(L, lpl_date_line(lua_touserdata(L, lua_upvalueindex(1))), LPL_DATE_LINE);
  return 1;
}

void lpl_push_date_line (lua_State *L) {
  lpl_date *d = lpl_newuserdata(L, sizeof *d, 0);
  d->at = (time_t)-1;
  lua_pushcclosure(L, date_line, 1);
}
