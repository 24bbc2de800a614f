--- An HTTP/1.1 server: each connection is a task of `partline.loop`; the handler has control as soon as the head is
-- parsed, and nothing of the body is read until it asks.
-- @module partline.server

local answering = require("partline.answering")
local connection = require("partline.connection")
local core = require("partline.core")
local default_loop = require("partline.loop")
local message = require("partline.message")
local options = require("partline.options")
local writing = require("partline.writing")

local errors = core.text.errors()
local is_reader = core.reader.is
local write_response = writing.write_response
local plain, failure, report, count_error = answering.plain, answering.failure, answering.report, answering.count
local answer_to, body_fault = answering.answer_to, answering.body_fault

local server = {}

local defaults = {
  host = "127.0.0.1", port = 0, backlog = 1024,
  head_timeout = 10,      -- seconds for a whole head
  body_timeout = 30,      -- seconds without progress of a body
  idle_timeout = 60,      -- seconds between two requests
  write_timeout = 30,     -- seconds without progress of a response
  max_connections = 10000,
  drain_bytes = 1024 * 1024, drain_timeout = 2, -- of a body that the handler left unread
  late_headers = true,    -- request.headers is built when somebody asks
}

local FAIR_REQUESTS = 100 -- pipelined requests of one connection before the others have their turn

---@class partline.Server
local Server = {}

-- ---- the answer ----

-- As write_response, but what the program's own functions raise comes back as a `failure`. They are only called for
-- bodies that are not plain strings.
local function write_guarded(c, response, about)
  local writer = c.writer
  local before = writer:status()
  local ok, keep_alive, text, code, begun = xpcall(write_response, failure, writer, response, about)
  if ok then return keep_alive, text, code, begun end
  local sent, _, broken = writer:status()
  begun = sent ~= before or broken ~= nil
  if not begun then writer:discard() end
  return nil, keep_alive, nil, begun
end

-- A response that could not be sent. Before its first byte left, → another one to take its place; afterwards, nil.
local function recover(self, c, request, about, why, code, begun)
  local _, _, broken = c.writer:status()
  if broken then
    count_error(self, broken)
    return nil
  end
  local failed = type(why) == "table" and why or { value = why }
  if not begun then return answer_to(self, failed, request) end
  if code then count_error(self, code) end
  if not body_fault(request) then report(self, failed.value, request, failed.trace) end
  if about.framing == "close" then c:abort() end -- half a body must not pass as whole
  return nil
end

-- A response's Reader or file is ours to close; the request's body is closed where it is drained.
local function close_body(response, request)
  local body = response.body
  if body == nil or type(body) == "string" or request and body == request.body then return end
  if is_reader(body) or io.type(body) == "file" then body:close() end
end

-- → whether the connection goes on, and the response that was sent.
local function send(self, c, request, response, about)
  local before = self.opts.log and c.writer:status()
  local keep_alive, why, code, begun
  if type(response.body) == "string" and not (response.stream or response.multipart or response.trailers) then
    keep_alive, why, code, begun = write_response(c.writer, response, about)
  else
    keep_alive, why, code, begun = write_guarded(c, response, about)
    close_body(response, request)
  end
  if keep_alive == nil then
    local instead = recover(self, c, request, about, why, code, begun)
    if instead then
      response = instead
      keep_alive = write_response(c.writer, response, about)
    end
  end
  if before then
    c.peer = c.peer or c.conn:peername() or "-"
    local bytes = c.writer:status() - before - (about.head_bytes or 0)
    answering.log(self, c.peer, request, response.status or 200, math.max(bytes, 0))
  end
  return keep_alive or false, response
end

-- Sends a refusal of ours and says that the connection is over.
local function refuse(self, c, request, code)
  local known = errors[code] or { status = 400 }
  count_error(self, code)
  c.unread = true
  local about = { keep_alive = false, method = request and request.method }
  return (send(self, c, request, plain(known.status, known.text), about))
end

-- ---- bodies that the handler left unread ----

-- Is the body at its end, or near enough to be read and dropped? Asked before the answer says what becomes of the
-- connection.
local function can_drain(self, body)
  body:release()
  local state, _, failed = body:status()
  local length = body:length()
  if failed then return false end -- a timeout may pass, but who was late once is not waited for again
  return state == "ended" or state == "open" and (length == nil or length <= self.opts.drain_bytes)
end

-- Whether the connection can carry another request: what is left of the body is read and dropped, within limits.
local function drain(self, c, body)
  if not body then return true end
  body:release() -- a body that sent itself back has been read since
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

-- ---- one request ----

-- 100 Continue goes out when somebody first has to wait for the body (RFC 9110 10.1.1).
local function expect_continue(c)
  local asked = { sent = false }
  function asked.send()
    asked.sent = true
    local ok, text, code = c.writer:write("HTTP/1.1 100 Continue\r\n\r\n")
    if ok then ok, text, code = c.writer:flush() end
    if ok then return true end
    return nil, text, code
  end
  c.reader:on_wait(asked.send)
  return asked
end

-- The body was not asked for, so it may never come, unless it has come along (RFC 9110 10.1.1). One that sends itself
-- back is asked for now. → whether the connection must end.
local function settle_expectation(c, request, response, asked)
  c.reader:on_wait(nil)
  local state, given = request.body:status()
  if asked.sent or given > 0 or state == "ended" then return false end
  if response.body ~= request.body or response.stream then return true end
  asked.send()
  return false
end

-- May the response hand the connection over?
local function may_upgrade(request, response, about)
  if request.method == "CONNECT" then return (response.status or 101) // 100 == 2 end
  return about.upgrade and not about.http10 and (response.status or 101) == 101
end

-- The connection becomes the program's: its function gets what the server read and wrote with.
local function upgrade(self, c, request, response, about)
  if not may_upgrade(request, response, about) then
    report(self, "the handler upgrades a connection that did not ask for it", request)
    send(self, c, request, plain(500), about)
    return
  end
  if not drain(self, c, request.body) then return refuse(self, c, request, "body-too-large") end
  local head = { status = response.status or 101, headers = response.headers, reason_phrase = response.reason_phrase }
  about.keep_alive = true
  local _, sent = send(self, c, request, head, about)
  if sent ~= head then return end
  c:patient()
  local ok, failed = xpcall(response.upgrade, failure, c.reader, c.writer)
  if not ok then report(self, failed.value, request, failed.trace) end
  c.writer:flush()
end

-- Answers with what the handler returned. → whether the connection goes on.
local function answer(self, c, request, about, response, over)
  if response.upgrade then return upgrade(self, c, request, response, about) end
  local status, body = response.status, request.body
  if type(status) == "number" and status < 200 then
    report(self, ("status %s is no answer"):format(status), request)
    response = plain(500)
  end
  if over or self.stopping or body and about.keep_alive and not can_drain(self, body) then about.keep_alive = false end
  if body then c.unread = true end
  if not send(self, c, request, response, about) then return false end
  if not body then return true end
  if not drain(self, c, body) then return false end
  c.reader:idle()
  return true
end

-- What an answer has to know, and may change. `method`: before the handler had the request.
local function about_of(method, said)
  return { method = method, http10 = said.http10, keep_alive = said.keep_alive, upgrade = said.upgrade }
end

-- `said`: what else the head says, shared by all that say the same. → whether the connection goes on.
local function serve_request(self, c, request, said)
  local counts = self.counts
  counts.requests = counts.requests + 1
  local about = about_of(request.method, said)
  if said.expect == "other" then return refuse(self, c, request, "expectation-failed") end
  local asked
  if said.framing ~= "none" then
    message.add_body(request, c.reader, said.framing, self.parser.limits)
    c:patient(self.opts.body_timeout)
    asked = said.expect == "continue" and expect_continue(c)
  end
  local response = answering.call(self, request)
  return answer(self, c, request, about, response, asked and settle_expectation(c, request, response, asked))
end

-- ---- connections ----

-- A head that did not come.
local function no_request(self, c, code)
  local first = c.fresh
  c.fresh = false -- what is still said is said even when the server stops
  if code == "timeout" then -- an idle connection ends without a word, half a head does not
    if first or c.reader:at_hand() > 0 then refuse(self, c, nil, code) end
  elseif code == "read-failed" then
    count_error(self, code)
  elseif code and code ~= "closed" then
    refuse(self, c, nil, code)
  end
end

-- One request after the other, where every wait keeps the coroutine (TLS). The first head has
-- its time from the connection's beginning on, later ones from their own first byte on.
local function serve_all(self, c)
  local parser, opts, served = self.parser, self.opts, 0
  c:patient(nil, self.loop.now() + opts.head_timeout)
  repeat
    local request, said, code = parser.head:read(c.reader, "request", nil, parser.late)
    if not request then return no_request(self, c, code) end
    c.fresh = false
    if not serve_request(self, c, request, said) or self.stopping then return end
    served = served + 1
    if served % FAIR_REQUESTS == 0 then self.loop.sleep(0) end
    c:patient(opts.idle_timeout, nil, opts.head_timeout)
  until false
end

-- Until more bytes come the connection has neither a coroutine nor memory for a head, unless half of one is there.
local function park(self, c, held, pass)
  local deadline, opts = c.head_deadline, self.opts
  if held then c.held = held end
  if held and not deadline then
    deadline = self.loop.now() + opts.head_timeout
    c.head_deadline = deadline
  elseif not deadline and opts.idle_timeout then
    deadline = self.loop.now() + opts.idle_timeout
  end
  self.loop.park(c, not pass and c.fd, "r", deadline)
end

-- What `serve` has left to us. → whether the connection goes on.
local function serve_rest(self, c, request, said, result, failed, method)
  if request == true then -- an answer that the system did not take at once
    local ok, _, code = c.writer:flush()
    if not ok then count_error(self, code) end
    return ok
  end
  if not said.plain then return serve_request(self, c, request, said) end
  local response = answering.settle(self, request, not failed, result)
  return answer(self, c, request, about_of(method, said), response)
end

-- Serves what has arrived. → whether the connection is over; else it is parked.
local function serve_arrived(self, c)
  local serve, woken, turn = self.serve, true, 0
  repeat
    local request, said, result, served, failed, method = serve(c.reader, c.writer, c.held, woken)
    if c.head_deadline and (served or request) then c.fresh, c.held, c.head_deadline = false, nil, nil end
    if request == false then
      local deadline = c.head_deadline
      if self.stopping and not said then
        c.conn:close()
        return true
      end
      if not deadline or self.loop.now() < deadline then
        park(self, c, said, result)
        return false
      end
      request, result = nil, "timeout" -- though bytes of it come without a pause
    end
    if not request then
      no_request(self, c, result)
      return true
    end
    if not serve_rest(self, c, request, said, result, failed, method) or self.stopping then return true end
    woken, turn = false, turn + (served or 1)
  until turn >= FAIR_REQUESTS
  park(self, c, nil, true)
  return false
end

local function handshake(self, c)
  local tls = self.tls
  if not tls then return true end
  local conn = c.conn
  local ok, _, code = conn:starttls(tls, self.loop.now() + self.opts.head_timeout)
  if not ok then
    count_error(self, code)
    conn:close()
    return false
  end
  local fresh = connection.new(conn, self.opts) -- the socket is another object now
  c.reader, c.writer, c.direct, c.patience = fresh.reader, fresh.writer, fresh.direct, fresh.patience
  return true
end

local function notify(self)
  for task in pairs(self.waiting) do self.loop.rouse(task) end
end

local function account(self, c)
  local counts = self.counts
  local _, received = c.reader:status()
  counts.bytes_in, counts.bytes_out = counts.bytes_in + received, counts.bytes_out + c.writer:status()
  counts.connections = counts.connections - 1
  self.open[c] = nil
  notify(self)
end

local function guarded(self, f, ...)
  local ok, failed = xpcall(f, failure, ...)
  if not ok then report(self, failed.value, nil, failed.trace) end
end

local function end_connection(self, c)
  if c.ended then return end -- without memory, what parks it may have failed and parked it
  c.ended = true
  guarded(self, c.linger, c, self.opts.drain_bytes, self.opts.drain_timeout, c.unread)
  account(self, c)
end

-- What the loop calls when a parked connection's wait is over.
local function resume(c, ok, _, code)
  local self, over = c.server, true
  if not ok then
    guarded(self, no_request, self, c, code)
  else
    ok, over = xpcall(serve_arrived, failure, self, c)
    if not ok then report(self, over.value, nil, over.trace) end
  end
  if over then end_connection(self, c) end
end

local function serve_connection(self, conn)
  if self.stopping then conn:close() end -- it has come too late
  local c, loop = connection.new(conn, self.opts), self.loop
  c.task, c.server, c.resume, c.fd = loop.running(), self, resume, conn.fd
  c.fresh, c.head_deadline = true, loop.now() + self.opts.head_timeout
  self.open[c] = true
  local up = handshake(self, c)
  if up and c.direct then return resume(c, true) end
  if up then guarded(self, serve_all, self, c) end
  end_connection(self, c)
end

-- A failure of accept, told once a second at most: it may come in floods.
local function complain(self, text)
  local now = self.loop.now()
  if now < self.quiet_until then return end
  self.quiet_until = now + 1
  report(self, text)
end

-- Sleeps until over() or the deadline: in a task until it is roused, elsewhere by running the loop. → over().
local function await(self, over, deadline)
  local loop = self.loop
  local task = loop.running()
  while not over() do
    local left = deadline and deadline - loop.now() or math.huge
    if left <= 0 then return false end
    if task then
      self.waiting[task] = true
      local ok = loop.sleep(left)
      self.waiting[task] = nil
      if not ok then return false end
    elseif not loop.step(left < math.huge and left or nil) then
      return over()
    end
  end
  return true
end

local function accept_all(self)
  local loop, counts, most = self.loop, self.counts, self.opts.max_connections
  local function room() return counts.connections < most or self.stopping end
  while not self.stopping do
    local conn, text, code
    if room() then conn, text, code = self.listener:accept() else await(self, room) end
    if conn then
      counts.connections = counts.connections + 1
      counts.accepted = counts.accepted + 1
      loop.spawn(serve_connection, self, conn)
    elseif code == "closed" then
      return
    elseif code then
      count_error(self, code)
      complain(self, text)
      if code ~= "aborted" and code ~= "too-many-files" then loop.sleep(0.1) end
    end
  end
end

-- ---- what programs call ----

--- One round of the loop: waits up to `timeout` seconds. → whether the server still runs.
---@param timeout number?
---@return boolean
function Server:step(timeout)
  return self.loop.step(timeout) and not self.closed
end

--- For life in another loop: the descriptor to watch, what for, and seconds until `step` must run in any case.
function Server:pollfd() return self.loop.pollfd() end
function Server:events() return self.loop.events() end
function Server:timeout() return self.loop.timeout() end

--- Runs the loop until the server is stopped. In a task it waits there.
---@return boolean
function Server:wait()
  await(self, function() return self.closed and next(self.open) == nil end)
  return true
end

-- Is there a connection left, but for the one whose handler is asking?
local function others_open(self)
  local me = self.loop.running()
  for c in pairs(self.open) do
    if not me or c.task ~= me then return true end
  end
  return false
end

-- Is nothing lost by closing it?
local function waits_in_vain(self, c)
  if not c.direct then return c.fresh or c:expecting() end
  return self.loop.parked(c.task) and (c.fresh or c.reader:at_hand() == 0)
end

--- No new connections; idle ones are closed, running handlers may finish within `grace` seconds (10), then they are
-- cut off. In a task it returns when all is over; elsewhere it runs the loop until then. A handler may call it: its own
-- answer is sent all the same.
---@param grace number?
---@return boolean
function Server:stop(grace)
  if self.closed then return true end
  self.stopping = true
  self.lane:plain(false)
  self.listener:close()
  notify(self)
  for c in pairs(self.open) do
    if waits_in_vain(self, c) then c.conn:close() end
  end
  await(self, function() return not others_open(self) end, self.loop.now() + (grace or 10))
  return self:close()
end

--- Closes everything at once: connections end, and the waits of their handlers fail with `"closed"`. Idempotent.
---@return boolean
function Server:close()
  self.stopping, self.closed = true, true
  self.lane:plain(false)
  self.listener:close()
  local me = self.loop.running()
  for c in pairs(self.open) do
    if not me or c.task ~= me then
      self.open[c] = nil
      c.reader:close()
      c.conn:close()
      self.loop.cancel(c.task, "server closed")
    end
  end
  notify(self)
  return true
end

--- Counters since the start: `connections` (open now), `accepted`, `requests`, `bytes_in`, `bytes_out`, `errors` by
-- code.
---@return table
function Server:stats()
  local copy = {}
  for name, value in pairs(self.counts) do copy[name] = value end
  copy.errors = {}
  for code, n in pairs(self.counts.errors) do copy.errors[code] = n end
  copy.requests = copy.requests + self.lane:requests()
  for c in pairs(self.open) do
    local _, received = c.reader:status()
    copy.bytes_in, copy.bytes_out = copy.bytes_in + received, copy.bytes_out + c.writer:status()
  end
  return copy
end

-- Methods answer to a dot too: `server.wait()`.
local function either_way(self, method)
  return function(first, ...)
    if first == self then return method(self, ...) end
    return method(self, first, ...)
  end
end

local function new_server(handler, opts)
  local self = {
    handler = handler, opts = opts, loop = opts.loop or default_loop, open = {}, waiting = {},
    parser = message.parser(opts), -- one for all connections: it has memory only for heads that are arriving
    stopping = false, closed = false, quiet_until = 0,
    counts = { connections = 0, accepted = 0, requests = 0, bytes_in = 0, bytes_out = 0, errors = {} },
  }
  local parser = self.parser
  self.serve, self.lane = core.head.server(parser.head, parser.late, handler, failure, writing.status_lines)
  self.lane:plain(not opts.log)
  for name, method in pairs(Server) do self[name] = either_way(self, method) end
  return self
end

local timeouts = { "head_timeout", "body_timeout", "idle_timeout", "write_timeout", "drain_timeout" }

-- Seconds that programs set: `math.huge` is no limit.
local function check_timeouts(opts)
  for _, name in ipairs(timeouts) do
    local value = opts[name]
    local ok = type(value) == "number" and (value > 0 or name == "drain_timeout" and value == 0)
    if not ok then error(name .. " must be a positive number of seconds", 3) end
  end
end

--- Starts a server; it runs when the loop does (`wait`, `step`, or `partline.run`).
-- `handler(request)` returns a response table (`status`, `headers`, `body`: string, Reader, file handle or function
-- returning pieces; or `stream = function(write) … end`, or `multipart`, or `upgrade = function(reader, writer) … end`
-- with 101), a string, a Reader, or raises. It may yield anywhere.
---@param handler fun(request: partline.Request): any
---@param opts table? host, port (0 picks one), unix, reuseport, tls, limits and timeouts (doc/server.md), on_error, log
---@return partline.Server|nil
---@return string? message
---@return string? code
function server.start(handler, opts)
  if handler == nil then error("a handler is required", 2) end
  opts = options.read(opts, defaults)
  check_timeouts(opts)
  local self = new_server(handler, opts)
  local transport = opts.transport or require("partline.transport.luasocket")
  local text, code
  if opts.tls then
    self.tls, text, code = transport.tls_context(opts.tls)
    if not self.tls then return nil, text, code end
  end
  self.listener, text, code = transport.listen {
    host = opts.host, port = opts.port, unix = opts.unix, backlog = opts.backlog, reuseport = opts.reuseport,
    loop = opts.loop,
  }
  if not self.listener then return nil, text, code end
  self.host, self.port = self.listener:getsockname()
  self.task = self.loop.spawn(accept_all, self)
  return self
end

return server
