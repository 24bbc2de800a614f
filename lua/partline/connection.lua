--- What server and client share of a connection: a Reader and a Writer over a transport's object, by its descriptor
-- where it has one and through `recv` and `send` elsewhere (TLS, test doubles).
-- @module partline.connection

local core = require("partline.core")
local loop = require("partline.loop")

local connection = {}

local TIMEOUT = 30             -- seconds without progress, unless told otherwise
local FAIR_RUN = 1024 * 1024   -- bytes moved without a wait before the others have their turn

-- Sockets that nobody wrapped are waited for in the default loop too.
core.writer.set_wait(loop.wait)

local function wait_of(conn)
  return (conn.loop or loop).wait
end

-- Counts bytes that needed no wait, and lets the others run when they are many.
local function fair(conn)
  local run, sleep = 0, (conn.loop or loop).sleep
  return function(n)
    run = n and run + n or 0
    if run < FAIR_RUN then return end
    run = 0
    sleep(0)
  end
end

-- The next bytes of a connection that has no descriptor for us; `patience` holds timeout and deadline.
local function receiver(conn, patience)
  local now, moved = (conn.loop or loop).now, fair(conn)
  return function(want)
    local deadline = patience.deadline
    while true do
      local bytes, message, code = conn:recv(want)
      if bytes then
        moved(#bytes)
        if patience["then"] then
          patience.timeout, patience.deadline, patience["then"] = nil, now() + patience["then"], nil
        end
        return bytes
      end
      if code == "closed" then return nil end
      if code ~= "timeout" then return nil, message, code end
      local limit = patience.timeout and now() + patience.timeout
      if deadline and (not limit or deadline < limit) then limit = deadline end
      local ok
      patience.waiting = true
      ok, message, code = conn:wait("r", limit)
      patience.waiting = false
      if not ok then return nil, message, code end
      moved()
    end
  end
end

-- Sends all of `bytes`, waiting as often as it takes: LuaSocket tells the last byte that went.
local function sender(conn, patience)
  local now, moved = (conn.loop or loop).now, fair(conn)
  return function(bytes)
    local from = 1
    while from <= #bytes do
      local last, message, code, sent = conn:send(bytes, from)
      if not last and code ~= "timeout" then return nil, message, code end
      from = (last or sent) + 1
      if not last then
        local ok
        ok, message, code = conn:wait("w", patience.write_timeout and now() + patience.write_timeout)
        if not ok then return nil, message, code end
        moved()
      end
    end
    moved(#bytes)
    return true
  end
end

local function socket_reader(conn, patience)
  local r = core.reader.socket(conn.sock, conn.fd, wait_of(conn), patience.timeout or 0)
  if conn.pending then
    r:preload(conn.pending)
    conn.pending = nil
  end
  return r
end

--- A Reader over a transport's connection. `opts.timeout`: seconds without progress (30).
---@param conn table
---@param opts {timeout: number?, deadline: number?}?
---@return partline.Reader
function connection.reader(conn, opts)
  local patience = { timeout = opts and opts.timeout or TIMEOUT, deadline = opts and opts.deadline }
  if conn.fd then return socket_reader(conn, patience) end
  return core.reader["function"](receiver(conn, patience), true)
end

--- A Writer over a transport's connection. `opts.timeout`: seconds without progress (30).
---@param conn table
---@param opts {timeout: number?}?
---@return partline.Writer
function connection.writer(conn, opts)
  local patience = { write_timeout = opts and opts.timeout or TIMEOUT }
  if conn.fd then return core.writer.socket(conn.sock, conn.fd, wait_of(conn), patience.write_timeout) end
  return core.writer["function"](sender(conn, patience))
end

---@class partline.Connection
---@field conn table the transport's object
---@field reader partline.Reader
---@field writer partline.Writer
local Connection = {}
Connection.__index = Connection

--- Reader and Writer of one connection, with one place for its timeouts.
---@param conn table
---@param opts {write_timeout: number?}?
---@return partline.Connection
function connection.new(conn, opts)
  local patience = { write_timeout = opts and opts.write_timeout or TIMEOUT }
  local self = setmetatable({ conn = conn, patience = patience, direct = conn.fd ~= nil }, Connection)
  if conn.fd then
    self.reader = socket_reader(conn, patience)
    self.writer = core.writer.socket(conn.sock, conn.fd, wait_of(conn), patience.write_timeout)
  else
    self.reader = core.reader["function"](receiver(conn, patience), true)
    self.writer = core.writer["function"](sender(conn, patience))
  end
  return self
end

--- How long reads wait from now on: seconds without progress, and a deadline (`loop.now()`); nil: no limit. With
-- `from_then`, a deadline so many seconds after the next bytes takes the place of both when they come.
---@param timeout number?
---@param deadline number?
---@param from_then number?
function Connection:patient(timeout, deadline, from_then)
  if self.direct then return self.reader:patience(timeout, deadline, from_then) end
  local patience = self.patience
  patience.timeout, patience.deadline, patience["then"] = timeout, deadline, from_then
end

--- Does somebody wait, under `from_then`, for bytes of which none has come? Then nothing is lost by closing.
---@return boolean
function Connection:expecting()
  if self.direct then return self.reader:expecting() end
  return self.patience.waiting == true and self.patience["then"] ~= nil
end

--- Closes at once. Idempotent.
function Connection:close()
  self.reader:close()
  self.writer:close()
  self.conn:close()
end

--- Closes so that the peer cannot take what it has for the whole. Idempotent.
function Connection:abort()
  self.reader:close()
  self.writer:close()
  local conn = self.conn
  if conn.abort then conn:abort() else conn:close() end
end

--- Closes so that what was sent arrives: closing with unread bytes would reset the connection (RFC 9112 9.6). Ends our
-- direction, then discards up to `bytes` for up to `seconds`. TLS cannot end one direction; there, `unread` says
-- whether there may be bytes to discard. May yield.
---@param bytes integer
---@param seconds number
---@param unread boolean?
function Connection:linger(bytes, seconds, unread)
  local conn = self.conn
  if conn.sock and (conn:shutdown("send") or conn.tls and unread) then
    self:patient(nil, (conn.loop or loop).now() + seconds)
    self.reader:skip(bytes)
  end
  self:close()
end

return connection
