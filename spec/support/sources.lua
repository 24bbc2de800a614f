--- Every kind of source a Reader can have, over the same bytes, and a scheduler for those that yield.
--
--     for name, open in sources.each() do
--       local r, close = open(bytes)
--       sources.run(function() ... r:read("l") ... end)
--       close()
--     end

local socket = require "socket"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local files = require "spec.support.files"

local M = { file = files.temporary, read_file = files.read }

local function nothing() end

--- Runs f in a coroutine, resuming it as often as it yields; → its results. An error in it is raised.
function M.run(f, ...)
  local task = coroutine.create(f)
  local results = table.pack(coroutine.resume(task, ...))
  while results[1] and coroutine.status(task) == "suspended" do
    results = table.pack(coroutine.resume(task))
  end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

--- A function that gives `bytes` in pieces of `size`, calling `between` before each.
function M.pieces(bytes, size, between)
  local i = 1
  return function()
    if between then between() end
    local piece = bytes:sub(i, i + size - 1)
    i = i + size
    return piece ~= "" and piece or nil
  end
end

--- Two connected TCP sockets on loopback.
function M.pair()
  local listener = assert(socket.bind("127.0.0.1", 0))
  local host, port = listener:getsockname()
  local a = assert(socket.connect(host, port))
  local b = assert(listener:accept())
  listener:close()
  a:setoption("tcp-nodelay", true)
  return a, b
end

--- Bytes in chunked coding, in chunks of `size`.
function M.chunked(bytes, size, trailer)
  local out = {}
  for i = 1, #bytes, size do
    local chunk = bytes:sub(i, i + size - 1)
    out[#out + 1] = ("%x\r\n%s\r\n"):format(#chunk, chunk)
  end
  return table.concat(out) .. "0\r\n" .. (trailer or "") .. "\r\n"
end

M.FORM = "multipart/form-data; boundary=a-boundary"

--- A form of this content type with these bytes as its only part.
function M.form(bytes)
  return '--a-boundary\r\nContent-Disposition: form-data; name="f"\r\n\r\n' .. bytes .. "\r\n--a-boundary--\r\n"
end

local open = {}

function open.string(bytes) return reader.from_string(bytes), nothing end

function open.path(bytes)
  local path = M.file(bytes)
  local r = assert(reader.from_file(path))
  return r, function()
    r:close()
    os.remove(path)
  end
end

function open.handle(bytes)
  local path = M.file(bytes)
  local handle = assert(io.open(path, "rb"))
  return assert(reader.from_file(handle)), function()
    handle:close()
    os.remove(path)
  end
end

open["part of a file"] = function(bytes)
  local path = M.file("before" .. bytes .. "after")
  local r = assert(reader.from_file(path, { from = 6, to = 5 + #bytes }))
  return r, function()
    r:close()
    os.remove(path)
  end
end

function open.pipe(bytes)
  local path = M.file(bytes)
  local pipe = assert(io.popen("cat " .. path))
  return assert(reader.from_file(pipe)), function()
    pipe:close()
    os.remove(path)
  end
end

open["function"] = function(bytes) return reader.from_function(M.pieces(bytes, 7)), nothing end
open["function, bytewise"] = function(bytes) return reader.from_function(M.pieces(bytes, 1)), nothing end

open["function that yields"] = function(bytes)
  return reader.from_function(M.pieces(bytes, 5, coroutine.yield)), nothing
end

open["function with empty pieces"] = function(bytes)
  local next_piece, empty = M.pieces(bytes, 3), true
  return reader.from_function(function()
    empty = not empty
    return empty and "" or next_piece()
  end), nothing
end

function open.socket(bytes)
  local a, b = M.pair()
  assert(a:send(bytes))
  a:close()
  return reader.from_socket(b), function() b:close() end
end

-- As LuaSocket's, but no socket: at most n bytes of it, "timeout" with a part never.
open["object with receive"] = function(bytes)
  local at = 1
  local object = {
    receive = function(_, n)
      if at > #bytes then return nil, "closed", "" end
      local piece = bytes:sub(at, at + math.min(n, 6) - 1)
      at = at + #piece
      return piece
    end,
    send = nothing,
  }
  return reader.from_socket(object), nothing
end

open["object with read"] = function(bytes)
  local next_piece = M.pieces(bytes, 4)
  return reader.of({ read = function(self, n)
    assert(type(self) == "table" and math.type(n) == "integer")
    return next_piece()
  end }), nothing
end

open["make with read_bytes"] = function(bytes)
  local object = { at = 1 }
  return reader.make(object, { ["read-bytes"] = function(self, n)
    local piece = bytes:sub(self.at, self.at + math.min(n, 9) - 1)
    self.at = self.at + #piece
    return piece ~= "" and piece or nil
  end }), nothing
end

open["make with read_line"] = function(bytes)
  local lines = reader.from_string(bytes)
  return reader.make(lines, { read_line = function(self, format) return self:read(format) end }), nothing
end

function open.ltn12(bytes)
  return reader.from_ltn12(require("ltn12").source.string(bytes)), nothing
end

function open.limit(bytes)
  return reader.limit(reader.from_function(M.pieces(bytes .. "more", 8)), #bytes), nothing
end

function open.chunked(bytes)
  return reader.chunked(reader.from_string(M.chunked(bytes, 5) .. "more")), nothing
end

open["chunked that yields"] = function(bytes)
  return reader.chunked(reader.from_function(M.pieces(M.chunked(bytes, 6), 4, coroutine.yield))), nothing
end

function open.part(bytes)
  local parts = multipart.parse(M.form(bytes), M.FORM)
  return parts().content, nothing
end

open["part that yields"] = function(bytes)
  local source = M.pieces(M.form(bytes), 6, coroutine.yield)
  local parts = multipart.parse(source, M.FORM)
  return M.run(parts).content, nothing
end

open["limit over chunked over a part"] = function(bytes)
  local parts = multipart.parse(M.form(M.chunked(bytes .. "more", 11)), M.FORM)
  return reader.limit(reader.chunked(parts().content), #bytes), nothing
end

local names = {}
for name in pairs(open) do names[#names + 1] = name end
table.sort(names)

--- Iterates over name and open(bytes) → reader, close.
function M.each()
  local i = 0
  return function()
    i = i + 1
    return names[i], open[names[i]]
  end
end

return M
