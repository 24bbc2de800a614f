#!/bin/sh
# Dependencies only go down. Each rule is one search; what it finds is printed and fails the check.
bad=0
rule() {  # rule TEXT FOUND
  if [ -n "$2" ]; then
    echo "layers: $1"
    echo "$2" | sed 's/^/  /'
    bad=1
  fi
}

rule "csrc/core knows no Lua, no sockets and no malloc" \
  "$(grep -nE '#[[:space:]]*include[[:space:]]*[<"](lua[a-z]*\.h|lualib\.h|lpl|sys/socket\.h|stdlib\.h)' csrc/core/*.[ch] 2>/dev/null)"
rule "a plain lua_call or lua_pcall cannot be yielded across: use lua_callk, lua_pcallk" \
  "$(grep -nwE 'lua_call|lua_pcall' csrc/bind/*.[ch] 2>/dev/null)"
rule "only lua/partline/transport requires LuaSocket" \
  "$(grep -rnE "require[[:space:]]*\(?[[:space:]]*[\"']socket" lua 2>/dev/null | grep -v '^lua/partline/transport/')"
for f in lua/partline/*.lua; do
  [ -e "$f" ] || continue
  spec=spec/$(basename "$f" .lua)_spec.lua
  [ -e "$spec" ] || rule "each module has its spec" "$f has no $spec"
done

[ $bad = 0 ] && echo "layers: in order"
exit $bad
