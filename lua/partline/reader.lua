--- Readers: bytes as they arrive, from strings, files, functions, sockets and any object that can be read.
-- A Reader's methods are those of the C class: `read`, `read_some`, `lines`, `peek`, `copy`, `save`, `skip`, `length`,
-- `trailers`, `source`, `close` (see doc/reader.md). Failures are `nil, message, code`; the end is `nil` alone.
-- @module partline.reader

local core = require("partline.core")
local class = core.reader

local reader = {}

--- The bytes of a string.
---@param s string
---@return partline.Reader
reader.from_string = class.string -- C itself, so that wrong use is told of under this name and at the caller's line

-- How many bytes lie from offset `from` to offset `to`, both counted from 0 as in a Range field (RFC 9110 14.1.2).
local function span(range)
  local from, to = range.from or 0, range.to
  if math.type(from) ~= "integer" or from < 0 then error("'from' must be a non-negative integer", 3) end
  if to ~= nil and math.type(to) ~= "integer" then error("'to' must be an integer", 3) end
  return from, to and math.max(to - from + 1, 0) or -1
end

--- A file by its path, closed with the Reader, or an open handle, which stays its owner's.
---@param file string|file* path or handle
---@param range {from: integer?, to: integer?}? offsets of the first and the last byte, counted from 0
---@return partline.Reader|nil
---@return string? message
---@return string? code
function reader.from_file(file, range)
  local handle, own = file, false
  local from, count = span(range or {})
  local kind = io.type(file) or type(file)
  if kind ~= "file" and kind ~= "string" then error("from_file: path or open file expected, got " .. kind, 2) end
  if kind == "string" then
    local message
    handle, message = io.open(file, "rb")
    if not handle then return nil, message, "read-failed" end
    own = true
  end
  if range and range.from then
    local where, message = handle:seek("set", from)
    if not where then return nil, message, "read-failed" end
  end
  return class.file(handle, count, own)
end

--- The pieces a function returns: strings, `nil` at the end, or `nil, message[, code]`. The function may yield; empty
-- strings are skipped.
---@param f fun(): string?, string?, string?
---@return partline.Reader
reader.from_function = class["function"]

--- An LTN12 source.
---@param source fun(): string?, string?
---@return partline.Reader
reader.from_ltn12 = class["function"]

-- The same connection, but the socket stays its owner's: nothing here closes it.
local function borrow(conn)
  local lent = setmetatable({}, { __index = getmetatable(conn).__index })
  for name, value in pairs(conn) do lent[name], conn[name] = value, nil end
  if lent.pollfd then require("partline.loop").detach(lent.pollfd) end
  return lent
end

--- A LuaSocket object, or any object with `receive`. Plain TCP and Unix sockets are read by their descriptor, without a
-- Lua string a piece; a read waits in `partline.loop` when it runs in it and blocks otherwise. The socket stays its
-- owner's: `close` does not close it.
---@param sock table|userdata
---@param opts {timeout: number?}? seconds without progress (default 30)
---@return partline.Reader|nil
---@return string? message
---@return string? code
function reader.from_socket(sock, opts)
  local kind = type(sock)
  if not ((kind == "table" or kind == "userdata") and sock.receive) then
    error("from_socket: socket or object with receive expected, got " .. kind, 2)
  end
  local conn, message, code = require("partline.transport.luasocket").wrap(sock)
  if not conn then return nil, message, code end
  return require("partline.connection").reader(borrow(conn), opts)
end

-- A piece of any size that fnl-http's methods, `read` or `receive` give.
local function pull(object, methods)
  local read = methods.read_bytes
  if read then return function(want) return read(object, want) end end
  if methods.read_line then
    return function()
      local line, message, code = methods.read_line(object, "*L")
      return line, message, code
    end
  end
  error("a reader needs a read_bytes or read_line method", 3)
end

--- Any object. `methods` are those of fnl-http's make-reader: `read_bytes(source, n)`, `read_line(source)`,
-- `close(source)`, `length(source)`, `peek(source, n)`; kebab-case names will do, and `read_bytes` alone is enough.
---@param source any
---@param methods table
---@return partline.Reader
function reader.make(source, methods)
  if methods ~= nil and type(methods) ~= "table" then error("make: table expected, got " .. type(methods), 2) end
  return class["function"](pull(source, require("partline.options").read(methods)), true)
end

--- Whether `x` is a Reader.
---@param x any
---@return boolean
reader.is_reader = class.is

--- Decodes chunked transfer coding over `r` (RFC 9112 7.1); `trailers()` answers after the end.
---@param r partline.Reader
---@param limits {lenient: boolean?, chunk_line: integer?, chunk_ext: integer?, trailer: integer?}? bytes
---@return partline.Reader
reader.chunked = class.chunked

--- Ends after `n` bytes, or with `r`.
---@param r partline.Reader
---@param n integer
---@return partline.Reader
reader.limit = class.limit

--- A Reader of whatever holds bytes: a Reader, a string, a file handle, a function, or an object with `read` or
-- `receive`.
---@param x any
---@param level integer? whose fault it is when nothing can be read from x, as for `error` (1: the caller's)
---@return partline.Reader
function reader.of(x, level)
  if class.is(x) then return x end
  local kind = io.type(x) or type(x)
  if kind == "string" then return class.string(x) end
  if kind == "file" then return class.file(x, -1) end
  if kind == "function" then return class["function"](x) end
  if (kind == "table" or kind == "userdata") and x.receive then return reader.from_socket(x) end
  if (kind == "table" or kind == "userdata") and x.read then
    return class["function"](function(want) return x:read(want) end, true)
  end
  error("cannot read from a " .. kind, (level or 1) + 1)
end

return reader
