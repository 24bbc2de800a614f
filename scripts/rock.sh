#!/bin/sh
# Proves the rockspec: builds the rock from a copy of the files that it names, installs it into an empty tree and
# loads every module from there. luarocks builds inside the source directory, hence the copy.
set -e
top=$(pwd) lua=${LUA:-lua5.4}
version=$($lua -e 'io.write((_VERSION:gsub("Lua ", "")))')
work=$(mktemp -d "${TMPDIR:-/tmp}/partline-rock.XXXXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/src" "$work/tree"
for f in csrc lua doc README.md LICENSE partline-scm-1.rockspec; do
  [ ! -e "$f" ] || cp -R "$f" "$work/src/"
done

cd "$work/src"
incdir=$(echo "$LUA_INC" | sed 's/^.*-I *\([^ ]*\).*$/\1/')
luarocks --lua-version="$version" make --deps-mode none --tree "$work/tree" partline-scm-1.rockspec \
  ${incdir:+"LUA_INCDIR=$incdir"} >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

cd "$work"
share=$work/tree/share/lua/$version lib=$work/tree/lib/lua/$version
unset LUA_PATH_5_4 LUA_CPATH_5_4
# Alone first: `require "partline"` needs nothing but its own tree.
LUA_PATH="$share/?.lua;$share/?/init.lua" LUA_CPATH="$lib/?.so" $lua -e 'assert(require "partline")'
# Then every module that the rockspec lists, LuaSocket coming from the system.
LUA_PATH="$share/?.lua;$share/?/init.lua;;" LUA_CPATH="$lib/?.so;;" $lua - "$top/partline-scm-1.rockspec" "$work/tree/" <<'END'
local spec = {}
assert(loadfile(arg[1], "t", spec))()
local count = 0
for name in pairs(spec.build.modules) do
  local path = package.searchpath(name, package.path) or assert(package.searchpath(name, package.cpath))
  assert(path:sub(1, #arg[2]) == arg[2], name .. " was found outside the rock: " .. path)
  require(name)
  count = count + 1
end
print(("rock: %d modules load from the installed tree"):format(count))
END
