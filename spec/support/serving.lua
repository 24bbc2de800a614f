--- A server and its clients in one loop, over real sockets.
--
--     serving.run(handler, opts, function(t)
--       local c = t.connect()
--       c:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
--       assert.equal("hello", c:response().body)
--     end)
--
-- The function runs as a task; afterwards the server is closed. Errors that the server reported are in `t.failures`;
-- a test that does not expect them calls `t.expect_no_failures()`, which `serving.run` does by itself unless
-- `opts.may_fail`.

local connection = require "partline.connection"
local loop_module = require "partline.loop"
local message = require "partline.message"
local server = require "partline.server"
local transport = require "partline.transport.luasocket"

local M = {}

local Client = {}
Client.__index = Client

local PATIENCE = 5 -- seconds; what should come comes at once

function Client:send(...)
  return self.writer:write(...) and self.writer:flush()
end

--- The next response, its body read; nil, message, code.
function Client:response(method)
  local response, text, code = message.read_response(self.reader, { method = method })
  if not response then return nil, text, code end
  if response.body then
    local reader = response.body
    response.body, response.body_error, response.body_code = reader:read("a")
    response.trailers = reader:trailers()
  end
  return response
end

--- Everything up to the end: bytes, or nil, message, code after a reset or when nothing came.
function Client:rest()
  return self.reader:read("a")
end

function Client:read(...)
  return self.reader:read(...)
end

--- Whether the server has closed: true, or false and why not.
function Client:ended()
  local bytes, _, code = self.reader:read_some()
  if bytes then return false, "got " .. bytes end
  if code and code ~= "read-failed" then return false, code end
  return true
end

function Client:half_close()
  return self.conn:shutdown("send")
end

function Client:close()
  self.conn:close()
end

--- Closes with a reset.
function Client:reset()
  self.conn:abort()
end

local function new_client(t, address, opts)
  opts = opts or {}
  local where = address.unix and { unix = address.unix } or { host = address.host, port = address.port }
  where.loop = t.loop
  local conn = assert(transport.connect(where))
  if opts.receive_buffer then conn.sock:setoption("recv-buffer-size", opts.receive_buffer) end
  if opts.tls then assert(conn:starttls(opts.tls, t.loop.deadline_in(PATIENCE))) end
  local client = setmetatable({ conn = conn, loop = t.loop }, Client)
  client.reader = connection.reader(conn, { timeout = opts.timeout or PATIENCE })
  client.writer = connection.writer(conn, { timeout = opts.timeout or PATIENCE })
  t.clients[#t.clients + 1] = client
  return client
end

local function close_all(t)
  for _, client in ipairs(t.clients) do client:close() end
  t.server.close()
  for _ = 1, 10 do
    if not t.loop.step(0) then break end
  end
  t.loop.close()
end

--- Sleeps in the loop of the test that runs now.
function M.sleep(seconds)
  return M.loop.sleep(seconds)
end

--- Runs f(t) beside a server: `t.server`, `t.loop`, `t.connect([opts])`, `t.failures`.
function M.run(handler, opts, f)
  local given = {}
  for name, value in pairs(opts or {}) do given[name] = value end
  local t = { loop = loop_module.new(), failures = {}, clients = {} }
  M.loop = t.loop
  given.loop = t.loop
  given.on_error = given.on_error or function(err, request, trace)
    t.failures[#t.failures + 1] = { err = err, request = request, trace = trace, text = tostring(trace or err) }
  end
  t.server = assert(server.start(handler, given))
  function t.connect(how)
    local address = given.unix and { unix = given.unix } or { host = "127.0.0.1", port = t.server.port }
    return new_client(t, address, how)
  end
  --- Sends bytes on a connection of their own: all that comes back.
  function t.exchange(bytes)
    local c = t.connect()
    c:send(bytes)
    local got, text, code = c:rest()
    c:close()
    return got, text, code
  end
  --- Does the server still answer?
  function t.alive()
    local c = t.connect()
    c:send("GET /alive HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    local response = c:response()
    c:close()
    return response and response.status
  end
  local ok, err = pcall(t.loop.run, function() f(t) end)
  close_all(t)
  if not ok then error(err, 0) end
  if not given.may_fail and t.failures[1] then error("the server reported: " .. t.failures[1].text, 0) end
end

--- Waits up to two seconds until f() is true.
function M.eventually(f)
  local deadline = M.loop.deadline_in(2)
  while not f() do
    if M.loop.now() > deadline then return false end
    M.loop.sleep(0.005)
  end
  return true
end

return M
