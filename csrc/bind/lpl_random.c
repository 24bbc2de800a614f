/* Random bytes from the system, for what must not be guessed: boundaries, names of files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/random.h>
#endif

#include "lpl.h"

enum { BYTES_MAX = 256 }; /* getrandom gives so many at once, whatever happens */

static bool from_device (unsigned char *out, size_t n) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  while (n > 0) {
    ssize_t k = read(fd, out, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) break;
    out += k;
    n -= (size_t)k;
  }
  close(fd);
  return n == 0;
}

static bool fill (unsigned char *out, size_t n) {
#if defined(__linux__)
  ssize_t k;
  do k = getrandom(out, n, 0);
  while (k < 0 && errno == EINTR);
  return k == (ssize_t)n || from_device(out, n);
#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
  arc4random_buf(out, n);
  return true;
#else
  return from_device(out, n);
#endif
}

/* random.bytes(n): a string of n random bytes, n from 1 to 256 */
static int bytes (lua_State *L) {
  unsigned char out[BYTES_MAX];
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n > 0 && n <= BYTES_MAX, 1, "out of range");
  if (!fill(out, (size_t)n)) return luaL_error(L, "the system gives no random bytes");
  lua_pushlstring(L, (const char *)out, (size_t)n);
  return 1;
}

/* random.hex(n): n random bytes as 2n hexadecimal digits */
static int hex (lua_State *L) {
  static const char digit[] = "0123456789abcdef";
  char out[2 * BYTES_MAX];
  size_t n;
  bytes(L);
  const char *p = lua_tolstring(L, -1, &n);
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digit[(unsigned char)p[i] >> 4];
    out[2 * i + 1] = digit[(unsigned char)p[i] & 15];
  }
  lua_pushlstring(L, out, 2 * n);
  return 1;
}

int lpl_open_random (lua_State *L) {
  static const luaL_Reg functions[] = {{"bytes", bytes}, {"hex", hex}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
