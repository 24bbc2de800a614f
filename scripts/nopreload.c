/* Loaded into Lua together with the sanitizer's runtime (make asan): the programs that Lua starts get neither. */

#include <stdlib.h>

__attribute__((constructor)) static void no_preload (void) {
  unsetenv("LD_PRELOAD");
}
