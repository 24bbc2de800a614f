--- Chunked bodies in Lua: 64 MiB in chunks of several sizes, in pieces of 64 KiB, decoded by a Reader and by the push
-- parser, beside the cost of moving the same pieces undecoded.
--
--     lua5.4 bench/chunked.lua [rounds]        (with LUA_PATH and LUA_CPATH as `make spec` sets them)

local bodies = require "bench.bodies"
local parser = require "partline.parser"
local reader = require "partline.reader"

local source = bodies.source

local ROUNDS = tonumber(arg and arg[1]) or 5
local MIB = 64
local PIECE = 64 * 1024

local function row(name, seconds, bytes, chunks)
  print(("  %-50s %8.2f GB/s %8.1f ns a chunk"):format(name, bytes / seconds / 1e9, seconds / chunks * 1e9))
end

local null = assert(io.open("/dev/null", "w"))

-- The body in pieces of about 64 KiB. They are few strings, given again and again: what is live stays small, as in a
-- server, so that the collector works as it does there.
local function pieces_of(size, chunks)
  local pieces, start = {}, ("%x\r\n"):format(size)
  if size <= PIECE then
    local block = (start .. ("x"):rep(size) .. "\r\n"):rep(PIECE // size)
    for i = 1, chunks // (PIECE // size) do pieces[i] = block end
  else
    local block = ("x"):rep(PIECE)
    for _ = 1, chunks do
      pieces[#pieces + 1] = start
      for _ = 1, size // PIECE do pieces[#pieces + 1] = block end
      pieces[#pieces + 1] = "\r\n"
    end
  end
  pieces[#pieces + 1] = "0\r\n\r\n"
  return pieces
end

local HEAD = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

local function push(pieces, on_body)
  local p = parser.request { on_body = on_body }
  p:feed(HEAD)
  for i = 1, #pieces do assert(p:feed(pieces[i])) end
end

for _, size in ipairs { 16, 1024, 16384, 1048576 } do
  local mib = size < 1024 and 4 or MIB
  local bytes = mib * 1024 * 1024
  local chunks = bytes // size
  local pieces = pieces_of(size, chunks)
  local function measure(name, f)
    row(name, bodies.best(ROUNDS, f), bytes, chunks)
  end
  print(("%d MiB in chunks of %d bytes"):format(mib, size))
  measure("floor: the pieces to a file sink, nothing decoded", function() source(pieces):copy(null) end)
  measure("reader.chunked: skip", function() reader.chunked(source(pieces)):skip() end)
  measure("reader.chunked: copy to a file sink", function() reader.chunked(source(pieces)):copy(null) end)
  measure("reader.chunked: read_some, a string each", function()
    local r = reader.chunked(source(pieces))
    while r:read_some() do end
  end)
  measure("push parser: nobody listens", function() push(pieces) end)
  measure("push parser: on_body", function() push(pieces, function() end) end)
end
