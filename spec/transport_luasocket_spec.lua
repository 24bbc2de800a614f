-- partline.transport.luasocket on each backend of the loop: TCP, Unix sockets, TLS and objects of the user's.

local loop_module = require "partline.loop"
local poll = require "partline.core".poll
local transport = require "partline.transport.luasocket"
local socket = require "socket"

local function between(low, high, x)
  assert.is_true(x >= low and x <= high, ("%g is not in %g .. %g"):format(x, low, high))
end

for _, backend in ipairs { "epoll", "kqueue", "poll" } do
  if poll.new(backend) then

describe("transport on " .. backend, function()
  local loop, open
  before_each(function() loop, open = loop_module.new(backend), {} end)
  after_each(function()
    for _, x in ipairs(open) do x:close() end
    loop.close()
  end)

  local function keep(x, ...)
    if x then open[#open + 1] = x end
    return x, ...
  end

  local function listen(opts)
    opts.loop = loop
    return keep(transport.listen(opts))
  end

  local function connect(opts)
    opts.loop = loop
    return keep(transport.connect(opts))
  end

  local function connect_to(l)
    local host, port = l:getsockname()
    return assert(connect(port and { host = host, port = port } or { unix = host }))
  end

  -- A connected pair, over TCP or (with a path) a Unix socket. Called inside or outside of tasks.
  local function pair(path)
    local l = assert(listen { unix = path })
    local c = connect_to(l)
    local s = keep(assert(l:accept()))
    return c, s, l
  end

  -- The read loop every caller has.
  local function read(conn, n, deadline)
    local bytes = ""
    while #bytes < n do
      local data, message, code = conn:recv(n - #bytes)
      if data then
        bytes = bytes .. data
      else
        if code ~= "timeout" then return nil, message, code end
        local ok
        ok, message, code = conn:wait("r", deadline or loop.deadline_in(5))
        if not ok then return nil, message, code end
      end
    end
    return bytes
  end

  -- The write loop every caller has.
  local function write(conn, s)
    local last = 0
    while last < #s do
      local done, message, code, sent = conn:send(s, last + 1)
      last = done or sent
      if not done then
        if code ~= "timeout" then return nil, message, code end
        local ok
        ok, message, code = conn:wait("w", loop.deadline_in(5))
        if not ok then return nil, message, code end
      end
    end
    return true
  end

  local function tmpname()
    local path = os.tmpname()
    os.remove(path)
    return path .. ".sock"
  end

  local function exists(path) return os.rename(path, path) and true or false end

  local kinds = { tcp = function() end }
  if transport.has_unix then kinds.unix = tmpname end

  for kind, address in pairs(kinds) do
    it(kind .. ": connects, exchanges bytes both ways, ends", function()
      loop.run(function()
        local c, s = pair(address())
        assert.equal("integer", math.type(c.fd))
        assert.equal("integer", math.type(s.fd))
        assert.equal(c.fd, c.pollfd)
        assert.is_nil(s.pending)
        assert.matches(kind .. " connection %(%d+%)", tostring(c))
        local last = c:send("hello")
        assert.equal(5, last)
        assert.equal("integer", math.type(last))
        assert.equal("he", read(s, 2))
        assert.equal("llo", s:recv())
        assert.same({ nil, "timed out", "timeout" }, { s:recv(10) })
        assert.equal(3, s:send("xyz", 3))
        assert.equal(3, s:send("xyz", 4))
        assert.equal("z", read(c, 1))
        assert.is_true(c:shutdown())
        assert.same({ nil, "connection closed", "closed" }, { read(s, 1) })
        assert.is_true(write(s, "still"))
        assert.equal("still", read(c, 5))
        s:close()
        s:close()
        assert.equal("closed", (select(3, read(c, 1))))
      end)
    end)

    it(kind .. ": a closed connection says so in every function", function()
      local c = pair(address())
      c:close()
      assert.same({ nil, "connection closed", "closed" }, { c:recv(1) })
      assert.same({ nil, "connection closed", "closed", 2 }, { c:send("abc", 3) })
      assert.same({ nil, "connection closed", "closed" }, { c:wait("r") })
      assert.same({ nil, "connection closed", "closed" }, { c:shutdown("both") })
      assert.same({ nil, "connection closed", "closed" }, { c:peername() })
      assert.same({ nil, "connection closed", "closed" }, { c:starttls {} })
      assert.matches("closed", tostring(c))
      assert.is_nil(c.fd)
    end)

    it(kind .. ": brings 32 MB to a slow receiver, byte for byte", function()
      local piece = {}
      for i = 0, 4095 do piece[#piece + 1] = ("%07d\n"):format(i) end
      local body = table.concat(piece):rep(1024)
      assert.equal(32 * 1024 * 1024, #body)
      local got, waits = {}, 0
      loop.run(function()
        local c, s = pair(address())
        loop.spawn(function()
          local wait = c.wait
          c.wait = function(...) waits = waits + 1 return wait(...) end
          assert(write(c, body))
          c:close()
        end)
        while true do
          local data, _, code = s:recv(65536)
          if data then
            got[#got + 1] = data
            if #got % 16 == 0 then loop.sleep(0.001) end
          elseif code == "timeout" then
            assert(s:wait("r", loop.deadline_in(5)))
          else
            break
          end
        end
      end)
      assert.is_true(table.concat(got) == body)
      assert.is_true(waits > 2)
    end)

    it(kind .. ": close wakes who waits", function()
      local results = {}
      local c, s, l = pair(address())
      loop.spawn(function() table.insert(results, { read(c, 1) }) end)
      loop.spawn(function() table.insert(results, { l:accept() }) end)
      loop.spawn(function()
        loop.sleep(0.005)
        c:close()
        l:close()
        l:close()
      end)
      loop.run()
      local closed = { nil, "descriptor was closed", "closed" }
      assert.same({ closed, closed }, results)
      assert.same({ nil, "listener closed", "closed" }, { l:accept() })
      assert.is_nil(l:fd())
      assert.equal("closed", (select(3, l:getsockname())))
      s:close()
    end)

    it(kind .. ": accept takes deadlines and is cancelled", function()
      local l = assert(listen { unix = address() })
      assert.equal("integer", math.type(l:fd()))
      assert.matches("listener", tostring(l))
      loop.run(function()
        assert.equal("timeout", (select(3, l:accept(loop.deadline_in(0.01)))))
        local me = loop.running()
        loop.spawn(function() loop.cancel(me, "stop") end)
        assert.same({ nil, "stop", "closed" }, { l:accept() })
      end)
    end)

    it(kind .. ": a dropped connection is closed and leaves the loop", function()
      local c = pair(address())
      local fd = c.fd
      for i = #open, 1, -1 do if open[i] == c then table.remove(open, i) end end
      c = nil -- luacheck: ignore
      collectgarbage() collectgarbage()
      assert.equal("closed", (select(3, loop.attach(fd))))
    end)

    it(kind .. ": blocks outside of tasks", function()
      local c, s = pair(address())
      assert.is_true(write(c, "abc"))
      assert.equal("abc", read(s, 3))
      assert.equal("timeout", (select(3, read(s, 1, loop.deadline_in(0.01)))))
    end)
  end

  it("tells both ends of TCP", function()
    local c, s, l = pair()
    local host, port = l:getsockname()
    assert.same({ "127.0.0.1", "integer" }, { host, math.type(port) })
    assert.same({ host, port }, { c:peername() })
    local peer, peer_port = s:peername()
    assert.equal("127.0.0.1", peer)
    assert.equal(select(2, c.sock:getsockname()), tostring(peer_port))
  end)

  it("sets TCP_NODELAY at both ends", function()
    local c, s = pair()
    assert.truthy(c.sock:getoption("tcp-nodelay"))
    assert.truthy(s.sock:getoption("tcp-nodelay"))
  end)

  it("accepts many at once", function()
    local l = assert(listen {})
    local served = 0
    loop.run(function()
      local acceptor = loop.spawn(function()
        while true do
          local s = l:accept()
          if not s then return end
          loop.spawn(function()
            write(s, assert(read(s, 3)):upper())
            s:close()
            served = served + 1
          end)
        end
      end)
      local clients = 0
      for i = 1, 200 do
        loop.spawn(function()
          local c = connect_to(l)
          write(c, ("%03d"):format(i))
          assert(read(c, 3) == ("%03d"):format(i))
          c:close()
          clients = clients + 1
        end)
      end
      while clients < 200 do loop.sleep(0.001) end
      loop.cancel(acceptor)
    end)
    assert.equal(200, served)
  end)

  it("takes names below localhost for this machine", function()
    local l = listen { host = "127.0.0.1" }
    local _, port = l:getsockname()
    for _, host in ipairs { "localhost", "a.localhost", "A.B.LocalHost", "a.localhost." } do
      local c = assert(connect { host = host, port = port, deadline = loop.deadline_in(5) })
      assert.equal(port, select(2, c:peername()))
    end
    assert.equal("host-not-found", (select(3, connect { host = "localhost.invalid", port = port })))
  end)

  it("says why it cannot connect", function()
    local l = assert(listen {})
    local _, port = l:getsockname()
    l:close()
    local function check()
      local conn, message, code = connect { host = "127.0.0.1", port = port }
      assert.is_nil(conn)
      assert.equal("refused", code)
      assert.equal("cannot connect to 127.0.0.1:" .. port .. ": connection refused", message)
    end
    check()
    loop.run(check)
    assert.equal("host-not-found", (select(3, connect { host = "nobody.invalid", port = 1 })))
    assert.has_error(function() connect {} end)
  end)

  it("tries every address of a name", function()
    local l = assert(listen { host = "127.0.0.1" })
    local _, port = l:getsockname()
    local dns = socket.dns.getaddrinfo
    socket.dns.getaddrinfo = function()
      return { { family = "inet6", addr = "::1" }, { family = "inet", addr = "127.0.0.2" },
        { family = "inet", addr = "127.0.0.1" } }
    end
    local ok, err = pcall(loop.run, function()
      local c = assert(connect { host = "three", port = port, deadline = loop.deadline_in(2) })
      assert.equal("127.0.0.1", (c:peername()))
    end)
    socket.dns.getaddrinfo = dns
    assert(ok, err)
  end)

  it("keeps the deadline of a connect nobody answers", function()
    local l = assert(listen { backlog = 0 }) -- a full queue drops further handshakes
    local host, port = l:getsockname()
    local filled, code = {}, nil
    loop.run(function()
      local start = loop.now()
      repeat
        local conn, _, why = connect { host = host, port = port, deadline = loop.deadline_in(0.1) }
        filled[#filled + 1], code = conn, why
      until code or #filled > 20
      between(0, 1, loop.now() - start)
    end)
    assert.equal("timeout", code)
  end)

  it("listens where it is told, and says why it cannot", function()
    local l = assert(listen { host = "*" })
    local host, port = l:getsockname()
    assert.equal("0.0.0.0", host)
    local _, message, code = listen { host = "*", port = port }
    assert.equal("address-in-use", code)
    assert.equal(("cannot listen on *:%d: address already in use"):format(port), message)
    assert.equal("bad-address", (select(3, listen { host = "192.0.2.1" })))
    assert.equal("host-not-found", (select(3, listen { host = "nobody.invalid" })))
    local six = listen { host = "::1" }
    if six then assert.equal("::1", (six:getsockname())) end
  end)

  it("shares a port with reuseport", function()
    local one = listen { reuseport = true }
    if not one then return pending("no SO_REUSEPORT here") end
    local _, port = one:getsockname()
    assert(listen { reuseport = true, port = port })
  end)

  it("pauses when there are no descriptors left, and goes on afterwards", function()
    local l = assert(listen {})
    local c = connect_to(l)
    local real = l.sock
    l.sock = { accept = function() return nil, "Too many open files" end }
    loop.run(function()
      local start = loop.now()
      assert.same({ nil, "accept: Too many open files", "too-many-files" }, { l:accept() })
      assert.equal("too-many-files", (select(3, l:accept())))
      between(0.05, 0.2, loop.now() - start)
      l.sock = { accept = function() return nil, "connection aborted" end }
      assert.equal("aborted", (select(3, l:accept())))
      l.sock = real
      start = loop.now()
      keep(assert(l:accept()))
      between(0, 0.04, loop.now() - start)
    end)
    c:close()
  end)

  describe("Unix listener", function()
    if not transport.has_unix then return pending("LuaSocket without Unix sockets") end

    it("has its path for a name and removes it", function()
      local path = tmpname()
      local c, s, l = pair(path)
      assert.equal(path, (l:getsockname()))
      assert.equal("unix", (c:peername()))
      assert.equal("unix", (s:peername()))
      assert.is_true(exists(path))
      l:close()
      assert.is_false(exists(path))
    end)

    it("takes over a stale file, and only that", function()
      local path = tmpname()
      local l = assert(listen { unix = path })
      assert.equal("address-in-use", (select(3, listen { unix = path }))) -- somebody answers
      assert.is_true(exists(path))
      keep(assert(l:accept(loop.deadline_in(1)))) -- the probe of the second listen
      loop.detach(l:fd())
      l.sock:close() -- as a crash would: the file stays
      l.sock = nil
      assert.is_true(exists(path))
      local again = assert(listen { unix = path })
      again:close()
      local file = assert(io.open(path, "w"))
      file:write("precious")
      file:close()
      assert.equal("address-in-use", (select(3, listen { unix = path })))
      assert.equal("precious", io.open(path):read("a"))
      os.remove(path)
    end)

    it("says why it cannot", function()
      assert.equal("not-found", (select(3, listen { unix = "/nonexistent/x.sock" })))
      assert.equal("not-found", (select(3, connect { unix = "/nonexistent/x.sock" })))
      assert.equal("cannot listen on " .. ("x"):rep(200) .. ": path too long",
        (select(2, listen { unix = ("x"):rep(200) })))
    end)

    it("lets a connect wait for room in its queue, until the deadline", function()
      local l = assert(listen { unix = tmpname(), backlog = 1 })
      local path = l:getsockname()
      loop.run(function()
        local code
        for _ = 1, 10 do
          code = select(3, connect { unix = path, deadline = loop.deadline_in(0.05) })
          if code then break end
        end
        assert.equal("timeout", code)
        loop.spawn(function() for _ = 1, 3 do loop.sleep(0.02) keep(l:accept()) end end)
        assert(connect { unix = path, deadline = loop.deadline_in(2) })
      end)
    end)
  end)

  describe("wrap", function()
    local function sockets()
      local l = assert(socket.bind("127.0.0.1", 0))
      local a = assert(socket.tcp4())
      assert(a:connect(l:getsockname()))
      local b = keep(assert(l:accept()))
      l:close()
      return a, b
    end

    it("takes a LuaSocket object over, with what it has read ahead", function()
      local a, b = sockets()
      b:send("line\nrest")
      assert.equal("line", a:receive("*l"))
      local conn = keep(assert(transport.wrap(a, { loop = loop })))
      assert.equal("rest", conn.pending)
      assert.equal(math.tointeger(a:getfd()), conn.fd)
      assert.equal("re", conn:recv(2))
      assert.equal("st", conn.pending)
      assert.equal("st", conn:recv(100))
      assert.is_nil(conn.pending)
      b:send("more")
      assert.equal("more", read(conn, 4))
    end)

    it("raises for a socket that is not connected", function()
      local _, err = pcall(function() transport.wrap(socket.tcp()) end)
      assert.matches("^spec/transport_luasocket_spec.lua:%d+: wrap: not a connected stream socket: tcp{master}", err)
    end)

    it("goes through receive and send of any other object", function()
      local sent, closed = {}, false
      local object = {
        receive = function(_, n) return ("x"):rep(n) end,
        send = function(_, s, i) sent[#sent + 1] = s:sub(i) return nil, "timeout", i end,
        close = function() closed = true end,
      }
      local conn = assert(transport.wrap(object, { loop = loop }))
      assert.is_nil(conn.fd)
      assert.is_nil(conn.pollfd)
      assert.equal("xxx", conn:recv(3))
      assert.same({ nil, "timed out", "timeout", 2 }, { conn:send("abc", 2) })
      assert.same({ "bc" }, sent)
      assert.equal("not-available", (select(3, conn:wait("r"))))
      assert.equal("not-available", (select(3, conn:shutdown())))
      assert.equal("unix", (conn:peername()))
      conn:close()
      assert.is_true(closed)
    end)

    it("waits in the direction TLS asks for", function()
      local a = sockets()
      local asked
      local object = {
        getfd = function() return a:getfd() end,
        receive = function() return nil, "wantwrite", "" end,
        send = function(_, _, i) return nil, "wantread", i - 1 end,
      }
      local conn = assert(transport.wrap(object, { loop = { attach = loop.attach, detach = loop.detach,
        wait = function(_, mode) asked = mode return true end } }))
      assert.equal("timeout", (select(3, conn:recv(1))))
      conn:wait("r")
      assert.equal("w", asked)
      assert.equal("timeout", (select(3, conn:send("x"))))
      conn:wait("w")
      assert.equal("r", asked)
      conn:close()
      a:close()
    end)
  end)

  describe("starttls", function()
    it("says so when LuaSec is missing", function()
      local c = pair()
      local loaded, preload = package.loaded.ssl, package.preload.ssl
      package.loaded.ssl, package.preload.ssl = nil, function() error("absent") end
      local _, message, code = c:starttls {}
      package.loaded.ssl, package.preload.ssl = loaded, preload
      assert.equal("tls-unavailable", code)
      assert.matches("LuaSec", message)
    end)

    if not pcall(require, "ssl") then return pending("LuaSec is not installed") end

    local dir = os.tmpname()
    local key, cert = dir .. ".key", dir .. ".crt"
    teardown(function() os.remove(dir) os.remove(key) os.remove(cert) end)
    local made = os.execute("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout " .. key ..
      " -out " .. cert .. " 2>/dev/null")
    if not made then return pending("no openssl program to make a certificate") end

    local server = { mode = "server", protocol = "any", key = key, certificate = cert, options = "all" }
    local client = { mode = "client", protocol = "any", verify = "none", options = "all", server_name = "localhost" }

    it("shakes hands and carries 1 MB through a slow receiver", function()
      local got
      loop.run(function()
        local c, s = pair()
        loop.spawn(function()
          assert(s:starttls(server, loop.deadline_in(5)) == s)
          assert.is_nil(s.fd)
          assert(write(s, ("0123456789abcdef"):rep(65536)))
          s:close()
        end)
        assert(c:starttls(client, loop.deadline_in(5)))
        assert.matches("tls", tostring(c))
        loop.sleep(0.02)
        got = read(c, 1048576)
        assert.equal("closed", (select(3, read(c, 1))))
      end)
      assert.is_true(got == ("0123456789abcdef"):rep(65536))
    end)

    it("fails with a value", function()
      loop.run(function()
        local c, s = pair()
        assert.equal("tls-failed", (select(3, c:starttls { mode = "client", protocol = "nonsense" })))
        assert.equal("timeout", (select(3, s:starttls(server, loop.deadline_in(0.01)))))
        c, s = pair()
        c:send("GET / HTTP/1.1\r\n\r\n")
        local _, message, code = s:starttls(server, loop.deadline_in(1))
        assert.equal("tls-failed", code)
        assert.matches("TLS handshake failed", message)
        s.pending = "x"
        assert.equal("tls-failed", (select(3, s:starttls(server))))
      end)
    end)
  end)
end)

  end
end
