--- An HTTP/1.1 server: each connection is a task of `partline.loop`; the handler has control as soon as the head is
-- parsed, and nothing of the body is read until it asks.
-- @module partline.server

local connection = require("partline.connection")
local core = require("partline.core")
local default_loop = require("partline.loop")
local message = require("partline.message")
local options = require("partline.options")
local writing = require("partline.writing")

local errors = core.text.errors()
local is_reader = core.reader.is

local server = {}

local defaults = {
  host = "127.0.0.1", port = 0, backlog = 1024,
  head_timeout = 10,      -- seconds for a whole head
  body_timeout = 30,      -- seconds without progress of a body
  idle_timeout = 60,      -- seconds between two requests
  write_timeout = 30,     -- seconds without progress of a response
  max_connections = 10000,
  drain_bytes = 1024 * 1024, drain_timeout = 2, -- of a body that the handler left unread
}

---@class partline.Server
local Server = {}

-- ---- answers of our own ----

local function plain(status, why)
  return {
    status = status, headers = { ["Content-Type"] = "text/plain; charset=utf-8" },
    body = (why or writing.reason(status)) .. "\n",
  }
end

local function count_error(self, code)
  local counts = self.counts
  counts.errors[code] = (counts.errors[code] or 0) + 1
end

-- ---- the log ----

local log_months = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }

-- The common log format, in UTC.
local function log_line(peer, request, status, bytes)
  local t = os.date("!*t")
  local stamp = ("%02d/%s/%d:%02d:%02d:%02d +0000"):format(t.day, log_months[t.month], t.year, t.hour, t.min, t.sec)
  local line = request and ("%s %s HTTP/1.%d"):format(request.method, request.target, request.protocol_version.minor)
  line = (line or "-"):gsub('["\\\0-\31\127-\255]', function(c) return ("\\x%02x"):format(c:byte()) end)
  return ('%s - - [%s] "%s" %d %d'):format(peer, stamp, line, status, bytes)
end

local function log(self, c, request, status, bytes)
  local sink = self.opts.log
  if not sink then return end
  if not c.peer then c.peer = c.conn:peername() or "-" end
  local line = log_line(c.peer, request, status, bytes)
  if type(sink) == "function" then return sink(line, request, status, bytes) end
  sink:write(line, "\n")
end

-- ---- the handler ----

local function traceback(err)
  if type(err) == "table" then return err end -- our own error objects say enough
  return debug.traceback(tostring(err), 2)
end

local function report(self, err, request)
  local on_error = self.opts.on_error
  if not on_error then
    io.stderr:write("partline.server: ", tostring(err), "\n")
    return
  end
  local ok, why = pcall(on_error, err, request)
  if not ok then io.stderr:write("partline.server: on_error failed: ", tostring(why), "\n") end
end

-- What a raised value answers: an error object of a body with its status, anything else 500.
local function answer_to(self, err, request)
  local status = type(err) == "table" and math.tointeger(err.status)
  if type(err) == "table" and err.code then count_error(self, err.code) end
  if status and status >= 400 and status < 500 then return plain(status, tostring(err)) end
  report(self, err, request)
  return plain(status and status < 600 and status > 500 and status or 500)
end

local function normalize(result)
  if type(result) == "table" and not is_reader(result) then return result end
  if type(result) == "string" then
    return { status = 200, headers = { ["Content-Type"] = "text/plain; charset=utf-8" }, body = result }
  end
  if is_reader(result) then return { status = 200, body = result } end
  return nil
end

-- → a response table, and whether the handler failed.
local function call_handler(self, request)
  local ok, result = xpcall(self.handler, traceback, request)
  if not ok then return answer_to(self, result, request), true end
  local response = normalize(result)
  if response then return response end
  report(self, "the handler returned a " .. type(result) .. ", not a response", request)
  return plain(500), true
end

-- ---- one request ----

-- Whether the connection can carry another request: what is left of the body is read and dropped, within limits.
local function drain(self, c, request)
  local body = request.body
  if not body then return true end
  body:release()
  local state = body:status()
  if state == "open" then
    c:patient(nil, self.loop.now() + self.opts.drain_timeout)
    local skipped = body:skip(self.opts.drain_bytes)
    state = skipped and body:status() or "failed"
    -- exactly the limit may have been there: then the end is in sight
    if state == "open" and body:read_some(1) == nil then state = body:status() end
  end
  body:close()
  return state == "ended"
end

local function send(self, c, request, response, about)
  local before = c.writer:status()
  local keep_alive, text, code, begun = writing.write_response(c.writer, response, about)
  if keep_alive == nil and not begun then -- refused before a byte was sent: the handler's fault
    report(self, text, request)
    response = plain(500)
    keep_alive, text, code = writing.write_response(c.writer, response, about)
  end
  local sent = c.writer:status() - before
  self.counts.bytes_out = self.counts.bytes_out + sent
  log(self, c, request, response.status or 200, sent)
  if keep_alive == nil then
    count_error(self, code)
    return nil, text, code
  end
  return keep_alive
end

-- Sends a refusal of ours and says that the connection is over.
local function refuse(self, c, request, code)
  local known = errors[code] or { status = 400 }
  count_error(self, code)
  send(self, c, request, plain(known.status, known.text), { keep_alive = false, method = request and request.method })
  return false
end

local function upgrade(self, c, response)
  local writer = c.writer
  local head, text, code = writing.write_response(writer, { status = 101, headers = response.headers }, {})
  if head == nil then
    count_error(self, code)
    return nil, text, code
  end
  c:patient()
  local ok, err = xpcall(response.upgrade, traceback, c.reader, writer)
  if not ok then report(self, err) end
  writer:flush()
  return false
end

-- 100 Continue goes out when the handler first has to wait for the body (RFC 9110 10.1.1).
local function expect_continue(c)
  local asked = { sent = false }
  c.reader:on_wait(function()
    asked.sent = true
    local ok, text, code = c.writer:write("HTTP/1.1 100 Continue\r\n\r\n")
    if ok then ok, text, code = c.writer:flush() end
    if ok then return true end
    return nil, text, code
  end)
  return asked
end

-- → whether the connection goes on.
local function serve_request(self, c, request, about)
  local counts = self.counts
  counts.requests = counts.requests + 1
  if about.expect == "other" then return refuse(self, c, request, "expectation-failed") end
  local asked = about.expect == "continue" and request.body and expect_continue(c)
  c:patient(self.opts.body_timeout)
  local response, failed = call_handler(self, request)
  if response.upgrade and response.status == 101 then return upgrade(self, c, response) end
  local waiting = asked and not asked.sent -- the peer may never send the body it was not asked for
  if asked then c.reader:on_wait(nil) end
  local keep = about.keep_alive and not failed and not waiting and not self.stopping
  local http10 = request.protocol_version.minor == 0
  local keep_alive = send(self, c, request, response, { method = request.method, http10 = http10, keep_alive = keep })
  if waiting and request.body then request.body:close() return false end
  return drain(self, c, request) and keep_alive or false
end

-- Waits for the next head. → request, about | nil: the connection is over.
local function next_request(self, c, first)
  local opts, now = self.opts, self.loop.now
  c.idle = true
  if first then c:patient(nil, now() + opts.head_timeout) else c:patient(opts.idle_timeout) end
  local byte, _, code = c.reader:peek(1)
  c.idle = false
  if not byte then
    if code == "timeout" and first then refuse(self, c, nil, "timeout") end
    return nil
  end
  if not first then c:patient(nil, now() + opts.head_timeout) end
  local request, about
  request, about, code = message.next_request(c.reader, self:parser_of(c))
  if request then return request, about end
  if code and code ~= "read-failed" and code ~= "closed" then refuse(self, c, nil, code) end
  return nil, code
end

function Server:parser_of(c)
  c.parser = c.parser or message.parser(self.opts)
  return c.parser
end

-- ---- connections ----

local function serve_all(self, c)
  local first = true
  while not self.stopping or first do
    local request, about = next_request(self, c, first)
    if not request then return end
    if not serve_request(self, c, request, about) then return end
    c.reader:idle()
    first = false
  end
end

local function handshake(self, conn)
  if not self.opts.tls then return true end
  local ok, text, code = conn:starttls(self.opts.tls, self.loop.now() + self.opts.head_timeout)
  if ok then return true end
  count_error(self, code)
  return nil, text
end

local function serve_connection(self, conn)
  local c = connection.new(conn, self.opts)
  self.open[c] = true
  if handshake(self, conn) then
    if self.opts.tls then -- the socket is another object now
      self.open[c] = nil
      c = connection.new(conn, self.opts)
      self.open[c] = true
    end
    local ok, err = xpcall(serve_all, traceback, self, c)
    if not ok then report(self, err) end
  end
  local ok, err = pcall(c.linger, c, self.opts.drain_bytes, self.opts.drain_timeout)
  if not ok then report(self, err) end
  self.open[c] = nil
  self.counts.connections = self.counts.connections - 1
end

local function accept_all(self)
  local loop = self.loop
  while not self.stopping do
    if self.counts.connections >= self.opts.max_connections then
      loop.sleep(0.05) -- accept pauses; the backlog holds who comes
    else
      local conn, text, code = self.listener:accept()
      if conn then
        self.counts.connections = self.counts.connections + 1
        self.counts.accepted = self.counts.accepted + 1
        loop.spawn(serve_connection, self, conn)
      elseif code == "closed" then
        return
      else
        count_error(self, code)
        if code ~= "aborted" and code ~= "too-many-files" then report(self, text) loop.sleep(0.1) end
      end
    end
  end
end

-- ---- what programs call ----

--- One round of the loop: waits up to `timeout` seconds. → whether the server still runs.
function Server:step(timeout)
  return self.loop.step(timeout) and not self.closed
end

--- Runs the loop until the server is stopped. In a task it waits there.
function Server:wait()
  local loop = self.loop
  if loop.running() then
    while not self.closed do loop.sleep(0.1) end
    return true
  end
  while not self.closed and loop.step() do end -- luacheck: ignore 542
  return true
end

--- No new connections; idle ones are closed, running handlers may finish within `grace` seconds (10), then they are
-- cut off. In a task it returns when all is over; elsewhere it runs the loop until then.
---@param grace number?
function Server:stop(grace)
  if self.closed then return true end
  self.stopping = true
  self.listener:close()
  for c in pairs(self.open) do
    if c.idle then c.conn:close() end
  end
  local loop = self.loop
  local deadline = loop.now() + (grace or 10)
  while next(self.open) and loop.now() < deadline do
    if loop.running() then loop.sleep(0.01) else loop.step(math.max(deadline - loop.now(), 0)) end
  end
  return self:close()
end

--- Closes everything at once. Idempotent.
function Server:close()
  self.stopping, self.closed = true, true
  self.listener:close()
  for c in pairs(self.open) do c.conn:close() end
  return true
end

--- Counters since the start: `connections` (open now), `accepted`, `requests`, `bytes_out`, `errors` by code.
function Server:stats()
  local counts, copy = self.counts, {}
  for name, value in pairs(counts) do copy[name] = value end
  copy.errors = {}
  for code, n in pairs(counts.errors) do copy.errors[code] = n end
  return copy
end

-- Methods answer to a dot too: `server.wait()`.
local function either_way(self, name)
  local method = Server[name]
  return function(first, ...)
    if first == self then return method(self, ...) end
    return method(self, first, ...)
  end
end

--- Starts a server; it runs when the loop does (`wait`, `step`, or `partline.run`).
-- `handler(request)` returns a response table (`status`, `headers`, `body`: string, Reader, file handle or function
-- returning pieces; or `stream = function(write) … end`; or `upgrade = function(reader, writer) … end` with 101), a
-- string, a Reader, or raises. It may yield anywhere.
---@param handler fun(request: partline.Request): any
---@param opts table? host, port (0 picks one), unix, reuseport, tls, limits and timeouts (doc/server.md), on_error, log
---@return partline.Server|nil
---@return string? message
---@return string? code
function server.start(handler, opts)
  if handler == nil then error("a handler is required", 2) end
  local self = setmetatable({ handler = handler, opts = options.read(opts, defaults) }, { __index = Server })
  local transport = self.opts.transport or require("partline.transport.luasocket")
  self.loop = self.opts.loop or default_loop
  local listener, text, code = transport.listen {
    host = self.opts.host, port = self.opts.port, unix = self.opts.unix, backlog = self.opts.backlog,
    reuseport = self.opts.reuseport, loop = self.opts.loop,
  }
  if not listener then return nil, text, code end
  self.listener = listener
  self.host, self.port = listener:getsockname()
  self.open, self.stopping, self.closed = {}, false, false
  self.counts = { connections = 0, accepted = 0, requests = 0, bytes_out = 0, errors = {} }
  for _, name in ipairs { "wait", "step", "stop", "close", "stats" } do self[name] = either_way(self, name) end
  self.task = self.loop.spawn(accept_all, self)
  return self
end

return server
