-- The rockspec of the working copy. Its lists come from the disk, so nobody edits them by hand.
--   lua scripts/rockspec.lua          tells whether partline-scm-1.rockspec is current
--   lua scripts/rockspec.lua write    writes it (make rockspec)
-- Loaded with the argument "text" it returns the text instead (spec/rock_spec.lua).

local FILE = "partline-scm-1.rockspec"

local TEMPLATE = [[
-- Written by `make rockspec`: edit scripts/rockspec.lua instead.
rockspec_format = "3.0"
package = "partline"
version = "scm-1"
source = {
  url = "git+https://example.org/partline/partline.git",
}
description = {
  summary = "A streaming HTTP/1.1 toolkit: multipart uploads part by part, in constant memory",
  detailed = "A C core that parses heads, codes chunked bodies and scans multipart boundaries, " ..
    "wrapped as a Lua module with Readers and a lazy parts iterator. LuaSocket provides the sockets.",
  license = "MIT",
  labels = { "http", "multipart", "streaming", "parser" },
}
dependencies = {
  "lua >= 5.3, < 5.6",
  "luasocket >= 3.0",
}
build = {
  type = "builtin",
  modules = {
    ["partline.core"] = {
      sources = {
$SOURCES
      },
      incdirs = { "csrc/core", "csrc/bind" },
    },
$MODULES
  },
}
test = {
  type = "command",
  command = "make test",
}
]]

local function files(pattern)
  local pipe = assert(io.popen("ls " .. pattern .. " 2>/dev/null"))
  local list = {}
  for path in pipe:lines() do
    list[#list + 1] = path
  end
  pipe:close()
  table.sort(list)
  return list
end

local function module_name(path)
  return (path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", "."))
end

local function text()
  local sources, modules = {}, {}
  for _, path in ipairs(files("csrc/core/*.c csrc/bind/*.c")) do
    sources[#sources + 1] = ("        %q,"):format(path)
  end
  for _, path in ipairs(files("lua/partline/*.lua lua/partline/*/*.lua")) do
    modules[#modules + 1] = ("    [%q] = %q,"):format(module_name(path), path)
  end
  local lists = { SOURCES = table.concat(sources, "\n"), MODULES = table.concat(modules, "\n") }
  return (TEMPLATE:gsub("%$(%u+)", lists))
end

local function current()
  local file = io.open(FILE, "rb")
  return file and file:read("a"), file and file:close()
end

local mode = ...
if mode == "text" then
  return text()
elseif mode == "write" then
  local file = assert(io.open(FILE, "wb"))
  assert(file:write(text()))
  assert(file:close())
elseif current() == text() then
  print(FILE .. " is current")
else
  print(FILE .. " is not current: run make rockspec")
  os.exit(1)
end
