--- Multipart bodies in Lua: one part of 64 MiB of several kinds of bytes, through the iterator of parts and through the
-- push parser, beside string.find for the boundary in the whole body.
--
--     lua5.4 bench/multipart.lua [rounds]        (with LUA_PATH and LUA_CPATH as `make spec` sets them)

local bodies = require "bench.bodies"
local multipart = require "partline.multipart"
local parser = require "partline.parser"

local ROUNDS = tonumber(arg and arg[1]) or 3
local SIZE = 64 * 1024 * 1024
local PIECE = 64 * 1024
local BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
local TYPE = "multipart/form-data; boundary=" .. BOUNDARY

local function row(name, f)
  print(("  %-58s %8.2f GB/s"):format(name, SIZE / bodies.best(ROUNDS, f) / 1e9))
end

local function random()
  local out = {}
  math.randomseed(1)
  for i = 1, 65536 do out[i] = string.char(math.random(0, 255)) end
  return table.concat(out)
end

local CONTENT = {
  { "random bytes", random() },
  { "lines of text", "The quick brown fox jumps over the lazy dog, as it does in every text.\r\n" },
  { "all CR", "\r" }, { "all LF", "\n" }, { "all dashes", "-" },
  { "near-boundaries", "\r\n--" .. BOUNDARY:sub(1, -2) },
}

local null = assert(io.open("/dev/null", "w"))

-- One block again and again, so that what is live stays small, as in a server, and the collector works as it does
-- there.
local function pieces_of(unit)
  local block = unit:rep(PIECE // #unit + 1):sub(1, PIECE)
  local pieces = { "--" .. BOUNDARY .. "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n" }
  for i = 1, SIZE // PIECE do pieces[i + 1] = block end
  pieces[#pieces + 1] = ("\r\n--%s--\r\n"):format(BOUNDARY)
  return pieces
end

for _, kind in ipairs(CONTENT) do
  local pieces = pieces_of(kind[2])
  local function source() return bodies.source(pieces) end
  print(kind[1])

  row("part.content:skip, pieces of 64 KiB", function()
    for part in multipart.parse(source(), TYPE) do part.content:skip() end
  end)
  row("part.content:read_some, strings of up to 64 KiB", function()
    for part in multipart.parse(source(), TYPE) do
      while part.content:read_some() do end
    end
  end)
  row("part.content:copy to a file sink (/dev/null)", function()
    for part in multipart.parse(source(), TYPE) do part.content:copy(null) end
  end)
  row("part.content:save to /dev/null", function()
    for part in multipart.parse(source(), TYPE) do assert(part.content:save("/dev/null")) end
  end)
  row("push parser, 64 KiB a feed, skipped", function()
    local p = parser.multipart(TYPE, function() end)
    for i = 1, #pieces do p:feed(pieces[i]) end
  end)
  row("push parser, 64 KiB a feed, a function as sink", function()
    local p = parser.multipart(TYPE, function(_, _, _, into) into(function() end) end)
    for i = 1, #pieces do p:feed(pieces[i]) end
  end)
end

-- Last, since strings of that size disturb the memory of the others.
print("floor: string.find of the boundary in the whole body")
for _, kind in ipairs(CONTENT) do
  local whole = table.concat(pieces_of(kind[2]))
  row(kind[1], function() whole:find("\r\n--" .. BOUNDARY, 100, true) end)
end
