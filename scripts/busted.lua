-- Runs busted under the interpreter that runs this file. Debian's `busted` starts whatever `lua` is.
require("busted.runner")({ standalone = false })
