#!/bin/sh
# deps.sh need TOOL...      fails, and says what to install, when a tool is missing
# deps.sh install TOOL...   on Debian and its relatives installs what is missing (as root or with sudo), else as need

lua=${LUA:-lua5.4}

includes() {  # includes HEADER FLAGS...
  header=$1
  shift
  echo "#include <$header>" | ${CC:-cc} "$@" -E - >/dev/null 2>&1
}

have() {
  case $1 in
    cc)        command -v "${CC:-cc}" ;;
    lua)       command -v "$lua" ;;
    headers)   includes lauxlib.h ${LUA_INC:-$(pkg-config --cflags lua5.4 2>/dev/null || pkg-config --cflags lua 2>/dev/null || echo -I/usr/include/lua5.4)} ;;
    headers53) includes lauxlib.h ${LUA53_INC:--I/usr/include/lua5.3} ;;
    luasocket) "$lua" -e 'require "socket"' ;;
    busted)    "$lua" -e 'assert(package.searchpath("busted.runner", package.path))' ;;
    json)      "$lua" -e 'assert(pcall(require, "cjson") or pcall(require, "dkjson"))' ;;
    fuzzer)    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
                 clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - ;;
    luasec)    "$lua" -e 'require "ssl"' ;;
    zlib)      "$lua" -e 'require "zlib"' ;;
    cqueues)   "$lua" -e 'require "cqueues"' ;;
    luv)       "$lua" -e 'require "luv"' ;;
    copas)     ls /usr/share/lua/5.2/copas.lua || "$lua" -e 'require "copas"' ;;
    httpbin)   command -v gunicorn && /usr/bin/python3 -c 'import httpbin' ;;
    chromium)  command -v chromium || command -v chromium-browser ;;
    busboy)    NODE_PATH=build/node/node_modules:/usr/share/nodejs node -e 'require("busboy")' ;;
    *)         PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$1" ;;
  esac >/dev/null 2>&1
}

debian() {
  case $1 in
    cc|gcc)    echo gcc libc6-dev ;;
    lua)       echo lua5.4 ;;
    headers)   echo liblua5.4-dev pkg-config ;;
    headers53) echo liblua5.3-dev ;;
    luasocket) echo lua-socket ;;
    busted)    echo lua-busted ;;
    json)      echo lua-dkjson ;;
    luacheck)  echo lua-check ;;
    ldoc)      echo lua-ldoc ;;
    valgrind)  echo valgrind libc6-dbg ;;
    luasec)    echo lua-sec ;;
    zlib)      echo lua-zlib ;;
    cqueues)   echo lua-cqueues ;;
    luv)       echo lua-luv ;;
    copas)     echo lua-copas ;;
    nginx)     echo nginx-light ;;
    httpbin)   echo python3-httpbin gunicorn ;;
    busboy)    echo nodejs node-busboy ;;
    chromium)  echo chromium ;;
    fuzzer)    echo clang "$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1)" ;;
    *)         echo "$1" ;;
  esac
}

elsewhere() {  # what to do where there is no apt-get
  rocks= base=
  for t in "$@"; do
    case $t in
      luasocket|busted|luacheck|ldoc|luasec|cqueues|luv|copas) rocks="$rocks $t" ;;
      json) rocks="$rocks dkjson" ;;
      zlib) rocks="$rocks lua-zlib" ;;
      *) base="$base $t" ;;
    esac
  done
  if [ -n "$base" ]; then
    echo "Missing:$base. Lua 5.4 with its headers and a C compiler come with"
    echo "  macOS     xcode-select --install; brew install lua luarocks pkg-config"
    echo "  Fedora    dnf install gcc make pkgconf lua lua-devel luarocks"
    echo "  Arch      pacman -S base-devel lua luarocks"
    echo "  Alpine    apk add build-base lua5.4 lua5.4-dev luarocks5.4"
    echo "  FreeBSD   pkg install gmake pkgconf lua54 lua54-luarocks"
    echo "  (sanitizers, fuzzing and linting also use gcc, clang with compiler-rt, valgrind and the Lua 5.3 headers)"
  fi
  for r in $rocks; do echo "  luarocks --lua-version=5.4 install $r"; done
}

apt() {
  if [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@"
  fi
}

missing() { for t in "$@"; do have "$t" || echo "$t"; done; }

action=$1
shift
gone=$(missing "$@")
[ -n "$gone" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  elsewhere $gone
  exit 1
fi
packages=$(for t in $gone; do debian "$t"; done | tr ' ' '\n' | sort -u | tr '\n' ' ')
if [ "$action" = install ] && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1; }; then
  echo "Installing: $packages"
  apt update -qq && apt install -qq -y --no-install-recommends $packages </dev/null || exit 1
  # What a package list did not know before the update (the version of clang's runtime) is known now.
  gone=$(missing "$@")
  [ -n "$gone" ] || exit 0
  packages=$(for t in $gone; do debian "$t"; done | tr '\n' ' ')
  apt install -qq -y --no-install-recommends $packages </dev/null || exit 1
  gone=$(missing "$@")
  [ -n "$gone" ] || exit 0
fi
echo "Missing:" $gone
echo "  apt-get install $packages"
exit 1
