--- TCP, Unix sockets, TLS over LuaSocket and LuaSec, waiting through partline.loop. Only this file requires LuaSocket.
--
-- A connection shows its descriptor (`fd`) where C may read and write it directly; where it does not (TLS, a user's
-- object), `recv` and `send` are the way. All failures are nil, message, code. See doc/transport.md.

local socket = require "socket"
local default_loop = require "partline.loop"

local has_unix, unix = pcall(require, "socket.unix")
local tointeger = math.tointeger

local EMFILE_PAUSE = 0.05 -- seconds the next accept() waits when there was no descriptor left
local UNIX_RETRY = 0.01   -- seconds between two tries when a Unix listener's queue is full: no event tells its end

-- {== errors ==

local codes = { -- LuaSocket has texts only; its own are fixed, the others are strerror's
  ["timeout"] = "timeout", ["wantread"] = "timeout", ["wantwrite"] = "timeout",
  ["closed"] = "closed",
  ["connection refused"] = "refused",
  ["connection aborted"] = "aborted", ["Software caused connection abort"] = "aborted",
  ["address already in use"] = "address-in-use", ["Cannot assign requested address"] = "bad-address",
  ["permission denied"] = "permission-denied",
  ["host or service not provided, or not known"] = "host-not-found", ["host not found"] = "host-not-found",
  ["temporary failure in name resolution"] = "host-not-found",
  ["No such file or directory"] = "not-found",
  ["Too many open files"] = "too-many-files", ["Too many open files in system"] = "too-many-files",
  ["Network is unreachable"] = "unreachable", ["No route to host"] = "unreachable",
}

local texts = { timeout = "timed out", closed = "connection closed" }

-- → message, code of a LuaSocket error text, with what was being done in front.
local function explain(err, what)
  local code = codes[err] or "socket-error"
  local message = texts[code] or tostring(err)
  return what and what .. ": " .. message or message, code
end

local function fail(err, what)
  return nil, explain(err, what)
end

-- == errors ==}
-- {== connections ==

---@class partline.transport.Conn
local Conn = { __name = "partline.transport.conn" }
Conn.__index = Conn

local function descriptor(sock)
  local fd = sock.getfd and tointeger(sock:getfd())
  return fd and fd >= 0 and fd or nil
end

-- kind: "tcp" or "unix" where C may use the descriptor, else "other".
local function new_conn(sock, loop, kind)
  local fd = descriptor(sock)
  if fd then
    local ok, message, code = loop.attach(fd)
    if not ok then sock:close() return nil, message, code end
  end
  if sock.settimeout then sock:settimeout(0) end
  if kind == "tcp" then sock:setoption("tcp-nodelay", true) end
  return setmetatable({ sock = sock, loop = loop, kind = kind, fd = kind ~= "other" and fd or nil, pollfd = fd }, Conn)
end

local function take_pending(self, max)
  local bytes = self.pending
  self.pending = #bytes > max and bytes:sub(max + 1) or nil
  return bytes:sub(1, max)
end

--- Up to max bytes (16384) that are at hand. → bytes | nil, message, code. Never yields.
-- code "timeout": nothing there now, wait("r") and repeat; "closed": the peer has ended.
function Conn:recv(max)
  max = max or 16384
  if self.pending then return take_pending(self, max) end
  local sock = self.sock
  if not sock then return fail("closed") end
  local data, err, part = sock:receive(max)
  if data then return data end
  if part and part ~= "" then return part end
  self.read_needs = err == "wantwrite" and "w" or nil
  return fail(err)
end

--- Sends what fits of s from byte `from` (1) on. → last byte's index | nil, message, code, last. Never yields.
-- code "timeout": the peer is slow, wait("w") and resume at last + 1.
function Conn:send(s, from)
  from = from or 1
  local sock = self.sock
  if not sock then return nil, "connection closed", "closed", from - 1 end
  local last, err, part = sock:send(s, from)
  if last then return tointeger(last) end
  self.write_needs = err == "wantread" and "r" or nil
  local message, code = explain(err)
  return nil, message, code, tointeger(part) or from - 1
end

--- Waits until recv ("r") or send ("w") is worth another try. → true | nil, message, code. May yield.
function Conn:wait(mode, deadline)
  local fd = self.pollfd
  if not fd and self.sock then return nil, "object has no descriptor to wait for", "not-available" end
  if not fd then return fail("closed") end
  local needs -- TLS may have to write in order to read
  if mode == "r" then needs = self.read_needs else needs = self.write_needs end
  return self.loop.wait(fd, needs or mode, deadline)
end

local function numeric(host, port)
  if not host then return fail(port) end
  return host, tointeger(tonumber(port))
end

--- → host, port of the peer; "unix" for a Unix socket; nil, message, code.
function Conn:peername()
  local sock = self.sock
  if not sock then return fail("closed") end
  if self.kind == "unix" or not sock.getpeername then return "unix" end
  return numeric(sock:getpeername())
end

--- Ends one direction: "send" (default), "receive" or "both". → true | nil, message, code.
function Conn:shutdown(how)
  local sock = self.sock
  if not sock then return fail("closed") end
  if not sock.shutdown then return nil, "object cannot shut down one direction", "not-available" end
  local ok, err = sock:shutdown(how or "send")
  if not ok then return fail(err) end
  return true
end

--- Closes; tasks that wait for it get "closed". Idempotent; also __close and __gc.
function Conn:close()
  local sock = self.sock
  if not sock then return end
  self.sock = nil
  if self.pollfd then self.loop.detach(self.pollfd) end
  self.fd, self.pollfd, self.pending = nil, nil, nil
  if sock.close then sock:close() end
end

--- Closes so that the peer sees a failure and not an end: what it has of a message must not pass as the whole.
function Conn:abort()
  if self.sock and self.kind == "tcp" and not self.tls then
    self.sock:setoption("linger", { on = true, timeout = 0 })
  end
  self:close()
end

Conn.__gc, Conn.__close = Conn.close, Conn.close -- LuaSocket's own __gc would close without telling the loop

function Conn:__tostring()
  return ("%s connection (%s)"):format(self.tls and "tls" or self.kind, self.sock and self.pollfd or "closed")
end

local function handshake(self, deadline)
  while true do
    local ok, err = self.sock:dohandshake()
    if ok then return self end
    if err ~= "wantread" and err ~= "wantwrite" then
      return nil, "TLS handshake failed: " .. tostring(err), "tls-failed"
    end
    local message, code
    ok, message, code = self.loop.wait(self.pollfd, err == "wantread" and "r" or "w", deadline)
    if not ok then return nil, "TLS handshake: " .. message, code end
    if not self.sock then return fail("closed") end
  end
end

--- A context made once for many connections, to be given to starttls as params. → table | nil, message, code.
-- params as for LuaSec's ssl.newcontext; `mode` and `protocol` default to "server" and "any".
local function tls_context(params)
  local found, ssl = pcall(require, "ssl")
  if not found then return nil, "TLS needs LuaSec, which is not installed", "tls-unavailable" end
  local given = { mode = "server", protocol = "any", options = { "all", "no_sslv3" } }
  for name, value in pairs(params) do given[name] = value end
  local context, err = ssl.newcontext(given)
  if not context then return nil, "TLS: " .. tostring(err), "tls-failed" end
  return { context = context, server_name = params.server_name }
end

--- Turns the connection into TLS. → self | nil, message, code. May yield.
-- params as for LuaSec's ssl.wrap, and server_name for SNI, or what tls_context gave; deadline absolute or nil.
-- From then on `fd` is nil. After a failure only close() is useful.
function Conn:starttls(params, deadline)
  local found, ssl = pcall(require, "ssl")
  if not found then return nil, "TLS needs LuaSec, which is not installed", "tls-unavailable" end
  if not self.sock then return fail("closed") end
  if self.pending then return nil, "bytes arrived before the TLS handshake", "tls-failed" end
  local sock, err = ssl.wrap(self.sock, params.context or params)
  if not sock then return nil, "TLS: " .. tostring(err), "tls-failed" end
  self.sock, self.fd, self.tls = sock, nil, true
  sock:settimeout(0)
  if params.server_name then sock:sni(params.server_name) end
  return handshake(self, deadline)
end

local function kind_of(sock)
  local name = tostring(sock)
  if name:find("^tcp{client}") then return "tcp" end
  if name:find("^unix%w*{client}") then return "unix" end
  if name:find("^%w+{%w+}") then error("wrap: not a connected stream socket: " .. name, 3) end
  return "other"
end

-- What LuaSocket has read ahead. Byte by byte: asking for more than is there would read from the descriptor again.
local function read_ahead(sock)
  local bytes = {}
  while sock:dirty() do bytes[#bytes + 1] = sock:receive(1) end
  return #bytes > 0 and table.concat(bytes) or nil
end

--- Takes over a connected LuaSocket or LuaSec object, or any with receive and send. → conn | nil, message, code.
-- `pending` holds what LuaSocket had read ahead, or nil: whoever reads `fd` directly takes it first and sets it to nil.
local function wrap(sock, opts)
  local kind = kind_of(sock)
  local conn, message, code = new_conn(sock, opts and opts.loop or default_loop, kind)
  if not conn then return nil, message, code end
  if conn.fd then conn.pending = read_ahead(sock) end
  return conn
end

-- == connections ==}
-- {== addresses ==

local LOOPBACK = { { family = "inet", addr = "127.0.0.1" }, { family = "inet6", addr = "::1" } }

-- localhost and what is below it are this machine, whether the system knows so or not (RFC 6761 6.3).
local function is_local(host)
  return ("." .. host:lower()):gsub("%.$", ""):match("%.localhost$") ~= nil
end

local function resolve(host)
  if host == "*" then return { { family = "inet", addr = "0.0.0.0" } } end
  local list, err = socket.dns.getaddrinfo(host)
  if list and #list > 0 then return list end
  if is_local(host) then return LOOPBACK end
  return fail(err or "host not found", host)
end

local function new_tcp(address)
  local sock, err
  if address.family == "inet6" then sock, err = socket.tcp6() else sock, err = socket.tcp4() end
  if sock then sock:settimeout(0) end
  return sock, err
end

local function new_unix()
  if not has_unix then return nil, "this LuaSocket has no Unix sockets" end
  local sock, err = (type(unix) == "table" and unix.stream or unix)()
  if sock then sock:settimeout(0) end
  return sock, err
end

-- == addresses ==}
-- {== listening ==

---@class partline.transport.Listener
local Listener = { __name = "partline.transport.listener" }
Listener.__index = Listener

-- Not attached: LuaSocket hides ECONNABORTED behind "timeout", so an edge could be lost. One-shot asks anew each time.
local function new_listener(sock, opts, kind)
  return setmetatable({
    sock = sock, loop = opts.loop or default_loop, kind = kind, path = opts.unix, descriptor = descriptor(sock),
  }, Listener)
end

local function refuse(self, err)
  local message, code = explain(err, "accept")
  self.pause = code == "too-many-files"
  return nil, message, code
end

-- Out of descriptors: the queue stays readable, so only time keeps the caller from spinning.
local function rest(self)
  self.pause = false
  return self.loop.sleep(EMFILE_PAUSE)
end

--- The next connection. → conn | nil, message, code. May yield. deadline: absolute, or nil.
-- "too-many-files" and "aborted" are passing: call again (the next call pauses first when descriptors were short).
function Listener:accept(deadline)
  local ok, message, code = true, nil, nil
  if self.pause then ok, message, code = rest(self) end
  while ok and self.sock do
    local sock, err = self.sock:accept()
    if sock then return new_conn(sock, self.loop, self.kind) end
    if err ~= "timeout" then return refuse(self, err) end
    ok, message, code = self.loop.wait(self.descriptor, "r", deadline)
  end
  return nil, message or "listener closed", code or "closed"
end

--- → host, port as bound; path for a Unix socket; nil, message, code.
function Listener:getsockname()
  if not self.sock then return fail("closed") end
  if self.kind == "unix" then return self.path end
  return numeric(self.sock:getsockname())
end

--- → the descriptor, nil when closed.
function Listener:fd()
  return self.descriptor
end

local function let_go(self)
  local sock = self.sock
  if not sock then return false end
  self.loop.detach(self.descriptor)
  self.sock, self.descriptor = nil, nil
  sock:close()
  return true
end

--- Closes; a waiting accept returns "closed"; the file of a Unix socket is removed. Idempotent; also __close.
function Listener:close()
  if let_go(self) and self.path and self.path:byte() ~= 0 then os.remove(self.path) end
end

Listener.__close, Listener.__gc = Listener.close, let_go -- a forked child's exit must not remove the parent's file

function Listener:__tostring()
  return ("%s listener (%s)"):format(self.kind, self.descriptor or "closed")
end

local function bind_tcp(address, opts)
  local sock, err = new_tcp(address)
  if not sock then return nil, err end
  local ok = true
  if opts.reuseaddr ~= false then sock:setoption("reuseaddr", true) end
  if opts.reuseport then ok, err = sock:setoption("reuseport", true) end
  if ok then ok, err = sock:bind(address.addr, opts.port or 0) end
  if ok then ok, err = sock:listen(opts.backlog or 1024) end
  if ok then return sock end
  sock:close()
  return nil, err
end

local function listen_tcp(opts)
  local host = opts.host or "127.0.0.1"
  local addresses, message, code = resolve(host)
  if not addresses then return nil, message, code end
  local err
  for _, address in ipairs(addresses) do
    local sock
    sock, err = bind_tcp(address, opts)
    if sock then return new_listener(sock, opts, "tcp") end
  end
  return fail(err, ("cannot listen on %s:%s"):format(host, opts.port or 0))
end

local function bind_unix(opts)
  local sock, err = new_unix()
  if not sock then return nil, err end
  local ok
  ok, err = sock:bind(opts.unix)
  if ok then ok, err = sock:listen(opts.backlog or 1024) end
  if ok then return sock end
  sock:close()
  return nil, err
end

local NOT_A_FILE = { [6] = true, [45] = true, [102] = true } -- open(2) on a socket: ENXIO; EOPNOTSUPP on BSD, macOS

-- A socket file nobody answers on. Also refused is a connection to a plain file, which must not be removed.
local function is_stale(path)
  if path:byte() == 0 then return false end
  local probe = new_unix()
  local _, err = probe:connect(path)
  probe:close()
  if err ~= "connection refused" then return false end
  local file, _, errno = io.open(path, "r+")
  if file then file:close() end
  return not file and NOT_A_FILE[errno] or false
end

local function listen_unix(opts)
  local sock, err = bind_unix(opts)
  if codes[err] == "address-in-use" and is_stale(opts.unix) then
    os.remove(opts.unix)
    sock, err = bind_unix(opts)
  end
  if not sock then return fail(err, "cannot listen on " .. opts.unix) end
  return new_listener(sock, opts, "unix")
end

--- Opens a listener: {host="127.0.0.1", port=0, reuseaddr=true, reuseport=} or {unix=path}; backlog=1024, loop=.
-- → listener | nil, message, code. host "*" is every IPv4 address. Resolving a name blocks; the first that binds wins.
local function listen(opts)
  if opts.unix then return listen_unix(opts) end
  return listen_tcp(opts)
end

-- == listening ==}
-- {== connecting ==

local CONNECTED = { ["already connected"] = true }
local IN_PROGRESS = { ["timeout"] = true, ["Operation already in progress"] = true }

-- Asking connect again is how LuaSocket tells how the first attempt went. → true | nil, message, code.
local function establish(sock, fd, address, port, loop, deadline)
  while true do
    local ok, err = sock:connect(address, port)
    if ok or CONNECTED[err] then return true end
    if not IN_PROGRESS[err] then return fail(err) end
    local message, code
    ok, message, code = loop.wait(fd, "w", deadline)
    if not ok then return nil, message, code end
  end
end

local function connect_one(address, port, loop, deadline)
  local sock, err = new_tcp(address)
  if not sock then return fail(err) end
  local fd = descriptor(sock)
  local ok, message, code = establish(sock, fd, address.addr, port, loop, deadline)
  if ok then return new_conn(sock, loop, "tcp") end
  loop.detach(fd)
  sock:close()
  return nil, message, code
end

-- An address that does not answer may use its share of the time only, so that the others get their turn.
local function share(loop, deadline, left)
  if not deadline or left == 1 then return deadline end
  local time = loop.now()
  return time + (deadline - time) / left
end

local function connect_tcp(opts, loop)
  local where = ("cannot connect to %s:%s"):format(opts.host, opts.port)
  local addresses, message, code = resolve(opts.host)
  if not addresses then return nil, message, code end
  for i, address in ipairs(addresses) do
    local conn
    conn, message, code = connect_one(address, opts.port, loop, share(loop, opts.deadline, #addresses - i + 1))
    if conn then return conn end
    if code == "closed" then break end -- told to stop
  end
  return nil, where .. ": " .. message, code
end

local function connect_unix(opts, loop)
  local where = "cannot connect to " .. opts.unix
  while true do
    local sock, err = new_unix()
    if not sock then return fail(err, where) end
    local ok
    ok, err = sock:connect(opts.unix)
    if ok then return new_conn(sock, loop, "unix") end
    sock:close()
    if err ~= "timeout" or opts.deadline and loop.now() >= opts.deadline then return fail(err, where) end
    local slept, message, code = loop.sleep(UNIX_RETRY)
    if not slept then return nil, message, code end
  end
end

--- Connects: {host=, port=} or {unix=path}; deadline= (absolute, loop.now()), loop=. → conn | nil, message, code.
-- May yield. Every address of the name is tried in turn. The look-up itself blocks the process: LuaSocket has no other.
local function connect(opts)
  local loop = opts.loop or default_loop
  if opts.unix then return connect_unix(opts, loop) end
  if not (opts.host and opts.port) then error("connect: host and port, or unix, expected", 2) end
  return connect_tcp(opts, loop)
end

-- == connecting ==}

return {
  name = "luasocket", listen = listen, connect = connect, wrap = wrap, tls_context = tls_context, has_unix = has_unix,
}
