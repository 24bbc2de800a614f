--- New connections of the client: plain or TLS, direct, through a proxy, or to a Unix socket.
-- @module partline.client.dial

local connection = require("partline.connection")
local default_loop = require("partline.loop")
local message = require("partline.message")
local proxy = require("partline.client.proxy")
local tls = require("partline.client.tls")
local writing = require("partline.writing")

local dial = {}

-- The loop as one connection sees it: no wait of the connection goes beyond the deadline of what it is used for.
local function view_of(loop)
  local view = { now = loop.now, running = loop.running, deadline = nil }
  local wait = loop.wait
  function view.wait(fd, mode, limit, pass)
    local deadline = view.deadline
    if deadline and (not limit or deadline < limit) then limit = deadline end
    return wait(fd, mode, limit, pass)
  end
  return setmetatable(view, { __index = loop })
end

-- What `connection.new` gives, with the view.
local function wrapped(conn, opts)
  local c = connection.new(conn, { write_timeout = opts.write_timeout })
  c.view = conn.loop
  return c
end

local function connect_message(route)
  local where = route.host .. ":" .. route.port
  local headers = { { "Host", where } }
  local to = route.proxy
  local credentials = to.authorization or to.userinfo and proxy.basic(to.userinfo)
  if credentials then headers[2] = { "Proxy-Authorization", credentials } end
  return { method = "CONNECT", target = where, headers = headers }
end

-- Asks the proxy for a tunnel (RFC 9110 9.3.6). → true | nil, message, code.
local function tunnel(conn, route, opts, deadline)
  local c = wrapped(conn, opts)
  c:patient(nil, deadline)
  local ok, text, code = writing.write_request(c.writer, connect_message(route))
  local response
  if ok then response, text, code = message.next_response(c.reader, message.parser(opts), "CONNECT") end
  if not response then return nil, "proxy: " .. (text or "connection closed"), code or "unexpected-eof" end
  if response.status // 100 ~= 2 then
    return nil, ("proxy: %d %s"):format(response.status, response.reason_phrase), "proxy-refused"
  end
  if c.reader:at_hand() > 0 then return nil, "proxy: bytes before the tunnel is used", "proxy-refused" end
  return true
end

local function plain(route, opts, deadline)
  local transport = opts.transport or require("partline.transport.luasocket")
  local to = route.proxy or route
  local host = to.host and to.host:gsub("^%[(.*)%]$", "%1")
  return transport.connect { host = host, port = to.port, unix = route.unix, deadline = deadline, loop = opts.loop }
end

-- The tunnel and TLS, where the route needs them. → true | nil, message, code.
local function secure(conn, route, opts, deadline)
  if not route.tls then return true end
  if route.proxy then
    local ok, text, code = tunnel(conn, route, opts, deadline)
    if not ok then return nil, text, code end
  end
  return tls.start(conn, route.tls, route.host:gsub("^%[(.*)%]$", "%1"), deadline)
end

--- Opens a connection. `route`: `host`, `port`, `unix`, `tls` (the option's table, or false), `proxy` (`{ host, port,
-- userinfo }` or false).
-- → what `partline.connection.new` gives, with `view`, whose `deadline` limits every wait. May yield.
---@param route table
---@param opts table
---@param limit number? deadline of the whole request
---@return table|nil
---@return string? message
---@return string? code
function dial.open(route, opts, limit)
  local deadline = (opts.loop or default_loop).now() + opts.connect_timeout
  if limit and limit < deadline then deadline = limit end
  local conn, text, code = plain(route, opts, deadline)
  if not conn then return nil, text, code end
  conn.loop = view_of(conn.loop or default_loop)
  conn.loop.deadline = deadline
  local ok
  ok, text, code = secure(conn, route, opts, deadline)
  if ok then return wrapped(conn, opts) end
  conn:close()
  return nil, text, code
end

return dial
