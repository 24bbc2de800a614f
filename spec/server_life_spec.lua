-- A server's life: stop and close, statistics, log, floods, exhaustion, many connections, and life in other loops.

local partline = require "partline"
local loop_module = require "partline.loop"
local process = require "spec.support.process"
local serving = require "spec.support.serving"
local socket = require "socket"

local under = os.getenv("PARTLINE_UNDER")
local on_linux = io.open("/proc/self/stat") ~= nil

local function get(path, fields)
  return ("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n"):format(path or "/", fields or "")
end

local function always(response)
  return function() return response end
end

describe("stop", function()
  local function took(t, f)
    local start = t.loop.now()
    f()
    return t.loop.now() - start
  end

  it("closes idle connections at once and takes no new ones", function()
    serving.run(always "x", {}, function(t)
      local idle, silent = t.connect(), t.connect()
      idle:send(get())
      idle:response()
      t.loop.sleep(0.01)
      local stop_took = took(t, function() assert.is_true(t.server.stop(5)) end)
      assert.is_true(stop_took < 0.5, stop_took)
      assert.is_true(idle:ended())
      assert.is_true(silent:ended())
      assert.has_error(t.connect)
    end)
  end)

  it("lets running handlers finish, and says close", function()
    serving.run(function() serving.sleep(0.1) return "done" end, {}, function(t)
      local c = t.connect()
      c:send(get() .. get())
      t.loop.sleep(0.02)
      local stopped
      t.loop.spawn(function() t.server.stop(5) stopped = t.loop.now() end)
      local r = c:response()
      assert.equal("done", r.body)
      assert.equal("close", r.headers.Connection)
      assert.is_true(c:ended())
      c:close()
      assert.is_true(serving.eventually(function() return stopped end))
    end)
  end)

  it("cuts off at the deadline what has not finished", function()
    local told
    serving.run(function()
      local _, _, code = serving.sleep(60)
      told = code
      return "late"
    end, {}, function(t)
      local c = t.connect()
      c:send(get())
      t.loop.sleep(0.02)
      local stop_took = took(t, function() t.server.stop(0.1) end)
      assert.is_true(stop_took > 0.05 and stop_took < 1, stop_took)
      assert.is_true(c:ended())
      assert.is_true(serving.eventually(function() return told end))
      assert.equal("closed", told)
      assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
    end)
  end)

  it("may be called by a handler, whose answer still goes out", function()
    local loop = loop_module.new()
    local server
    server = assert(partline.server.start(function()
      server.stop(1)
      return "bye"
    end, { loop = loop, drain_timeout = 0.05 }))
    local s = assert(socket.connect("127.0.0.1", server.port))
    s:send(get())
    assert.is_true(server.wait())
    s:settimeout(2)
    local got = s:receive("*a")
    assert.matches("^HTTP/1%.1 200 .*bye$", got)
    s:close()
    loop.close()
  end)

  it("does not wait for who is ready without having anything to say", function()
    local t
    serving.run(function()
      if t.server.stats().requests == 100 then -- the others have their turn after it
        t.loop.spawn(function() t.took = took(t, function() t.server.stop(2) end) end)
      end
      return { body = "x" }
    end, {}, function(with)
      t = with
      local c = t.connect()
      c:send(get():rep(100))
      for _ = 1, 100 do assert.equal(200, c:response().status) end
      assert.is_true(serving.eventually(function() return t.took end)) -- though the peer does not close
      assert.is_true(c:ended())
      assert.is_true(t.took < 0.5, t.took)
    end)
  end)

  it("lets the answer to a head that was refused arrive", function()
    serving.run(always "x", { drain_timeout = 0.3 }, function(t)
      local first, later = t.connect(), t.connect()
      first:send("garbage\r\n\r\n")
      later:send(get())
      later:response()
      later:send("garbage\r\n\r\n")
      t.loop.sleep(0.02)
      t.loop.spawn(t.server.stop, 5)
      for _ = 1, 3 do -- they read when they have sent all
        t.loop.sleep(0.02)
        for _, c in ipairs { first, later } do assert.is_truthy(c:send("more of it")) end
      end
      for _, c in ipairs { first, later } do
        assert.matches("^HTTP/1%.1 400 ", c:rest())
        c:close()
      end
    end)
  end)

  it("knows of a connection that has been accepted just now", function()
    for _, bytes in ipairs { "", get() } do
      for _, how in ipairs { "stop", "close" } do
        local loop, served = loop_module.new(), 0
        local server = assert(partline.server.start(function()
          served = served + 1
          return "x"
        end, { loop = loop }))
        local s = assert(socket.connect("127.0.0.1", server.port))
        s:send(bytes)
        repeat server.step(0.01) until server.stats().accepted == 1
        assert.is_true(server[how](1))
        for _ = 1, 5 do loop.step(0) end
        s:settimeout(1)
        local _, err = s:receive(1)
        assert.equal("closed", err)
        assert.same({ 0, 0 }, { served, server.stats().connections })
        s:close()
        loop.close()
      end
    end
  end)

  it("works outside of the loop, too", function()
    local loop = loop_module.new()
    local server = assert(partline.server.start(always "x", { loop = loop }))
    local s = assert(socket.connect("127.0.0.1", server.port))
    for _ = 1, 5 do server.step(0.01) end
    assert.equal(1, server.stats().connections)
    assert.is_true(server.stop(0.1))
    assert.is_true(server.stop())
    assert.is_false(server.step(0))
    assert.is_true(server.wait())
    s:close()
    loop.close()
  end)

  it("wakes who waits for the server", function()
    serving.run(always "x", {}, function(t)
      local over = 0
      for _ = 1, 2 do t.loop.spawn(function() t.server:wait() over = over + 1 end) end
      t.loop.sleep(0.01)
      assert.equal(0, over)
      t.server:close()
      assert.is_true(serving.eventually(function() return over == 2 end))
    end)
  end)
end)

describe("close", function()
  it("leaves unserved what has arrived already", function()
    local loop = loop_module.new()
    local server = assert(partline.server.start(always { body = "x" }, { loop = loop }))
    local s = assert(socket.connect("127.0.0.1", server.port))
    s:send(get():rep(150))
    repeat server.step(0.01) until server.stats().requests == 100 -- the others have their turn after it
    server.close()
    for _ = 1, 5 do loop.step(0) end
    assert.same({ 100, 0 }, { server.stats().requests, server.stats().connections })
    s:close()
    loop.close()
  end)
end)

describe("stats", function()
  it("count connections, requests, bytes and errors", function()
    serving.run(function(request)
      if request.path == "/fail" then error { status = 400, code = "bad-chunk-size", message = "" } end
      return { body = ("x"):rep(1000) }
    end, {}, function(t)
      local c = t.connect()
      c:send(get() .. get())
      c:response()
      c:response()
      local stats = t.server.stats()
      assert.equal(1, stats.connections)
      assert.equal(1, stats.accepted)
      assert.equal(2, stats.requests)
      assert.equal(2 * #get(), stats.bytes_in)
      assert.is_true(stats.bytes_out > 2000 and stats.bytes_out < 2500)
      assert.same({}, stats.errors)
      c:send(get("/fail"))
      c:response()
      t.exchange("garbage\r\n\r\n")
      stats = t.server.stats()
      assert.equal(1, stats.errors["bad-chunk-size"])
      assert.equal(1, stats.errors["bad-request-line"])
      c:close()
      assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
      assert.equal(2 * #get() + #get("/fail") + #"garbage\r\n\r\n", t.server.stats().bytes_in)
      stats.errors.x = 1
      assert.is_nil(t.server.stats().errors.x)
    end)
  end)
end)

describe("log", function()
  it("writes a line per request in the common log format", function()
    local lines = {}
    local sink = { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end }
    serving.run(function(request)
      if request.path == "/fail" then error("x") end
      return { status = 201, body = "hello" }
    end, { log = sink, may_fail = true }, function(t)
      t.exchange(get('/a?b="c\\', "Connection: close\r\n"))
      t.exchange(get("/fail", "Connection: close\r\n"))
      t.exchange("garbage\r\n\r\n")
      t.exchange(get("/", "Connection: close\r\n"):gsub("GET", "HEAD"), nil)
    end)
    local stamp = "%[%d%d/%u%l%l/%d%d%d%d:%d%d:%d%d:%d%d %+0000%]"
    assert.matches('^127%.0%.0%.1 %- %- ' .. stamp .. ' "GET /a%?b=\\x22c\\x5c HTTP/1%.1" 201 5\n$', lines[1])
    assert.matches('"GET /fail HTTP/1%.1" 500 22\n$', lines[2])
    assert.matches('"%-" 400 %d+\n$', lines[3])
    assert.matches('"HEAD / HTTP/1%.1" 201 0\n$', lines[4])
  end)

  it("may be a function, which may fail", function()
    local seen = {}
    serving.run(always "hello", { log = function(...)
      seen[#seen + 1] = { ... }
    end }, function(t)
      t.alive()
    end)
    assert.equal("/alive", seen[1][2].path)
    assert.equal(200, seen[1][3])
    assert.equal(5, seen[1][4])
  end)
end)

describe("resets in every state", function()
  it("do no harm", function()
    local body = ("x"):rep(300000)
    serving.run(function(request)
      local path = request.path
      if path == "/read" then request.body:skip() end
      if path == "/sleep" then serving.sleep(0.02) end
      if path == "/big" then return body:rep(40) end
      if path == "/stream" then
        return { stream = function(write)
          for _ = 1, 100 do if not write(body) then return end end
        end }
      end
      if path == "/raise" then assert(request.body:read("a")) end
      return "x"
    end, { drain_timeout = 0.2 }, function(t)
      local function post(path, n)
        return ("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n%s"):format(path, ("y"):rep(n))
      end
      local sends = {
        "", "GET", get(), get():rep(50), get("/big"), get("/stream"), get("/sleep"), get("/sleep"):rep(10),
        post("/read", 0), post("/read", 500), post("/read", 1000), post("/early", 500), post("/raise", 500),
        "garbage\r\n\r\n", get("/", "Connection: upgrade\r\nUpgrade: x\r\n"),
      }
      for _, wait in ipairs { 0, 0.001, 0.03 } do
        for _, bytes in ipairs(sends) do
          for _, how in ipairs { "reset", "close", "half_close" } do
            local c = t.connect({ receive_buffer = 4096 })
            c:send(bytes)
            t.loop.sleep(wait)
            c[how](c)
            if how == "half_close" then
              t.loop.sleep(wait)
              c:reset()
            end
          end
        end
      end
      assert.equal(200, t.alive())
      assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
    end)
  end)
end)

describe("accept", function()
  it("goes on after aborted connections and when descriptors were short, and tells", function()
    local loop = loop_module.new()
    local failures, queue = {}, {}
    local real = require "partline.transport.luasocket"
    local double = setmetatable({
      listen = function(opts)
        local listener = assert(real.listen(opts))
        return setmetatable({
          accept = function(_, deadline)
            local next_one = table.remove(queue, 1)
            if next_one then return nil, "accept: " .. next_one, next_one end
            return listener:accept(deadline)
          end,
          close = function() listener:close() end,
        }, { __index = function(_, name) return function(_, ...) return listener[name](listener, ...) end end })
      end,
    }, { __index = real })
    queue = { "aborted", "too-many-files", "aborted", "socket-error", "no-memory" }
    local server = assert(partline.server.start(always "x", { loop = loop, transport = double,
      on_error = function(err) failures[#failures + 1] = err end }))
    local s = assert(socket.connect("127.0.0.1", server.port))
    s:send(get("/", "Connection: close\r\n"))
    local deadline = loop.now() + 3
    while server.stats().requests == 0 and loop.now() < deadline do server.step(0.05) end
    assert.same({ aborted = 2, ["too-many-files"] = 1, ["socket-error"] = 1, ["no-memory"] = 1 }, server.stats().errors)
    assert.same({ "accept: aborted" }, failures) -- one a second at most
    s:close()
    server.close()
    loop.step(0)
    loop.close()
  end)

  it("carries on when there are no descriptors left", function()
    if under or not on_linux then return pending("needs /proc and a system without a sanitizer") end
    local p = assert(process.start("ulimit -n 40;", "spec/support/serve.lua"))
    local socks = {}
    for i = 1, 80 do socks[i] = socket.connect("127.0.0.1", p.port) end
    for _, s in ipairs(socks) do
      s:settimeout(0.02)
      s:send(get())
    end
    local answered, before = 0, p:cpu()
    for _, s in ipairs(socks) do
      if s:receive("*l") == "HTTP/1.1 200 OK" then answered = answered + 1 end
    end
    assert.is_true(answered > 20 and answered < 40, answered)
    assert.is_true(p:cpu() - before < 0.3, "spins while it has no descriptors")
    for i = 1, 80, 2 do socks[i]:close() end
    socket.sleep(0.2)
    local more = 0
    for i = 2, 80, 2 do
      socks[i]:settimeout(1)
      if socks[i]:receive("*l") then more = more + 1 end
      socks[i]:close()
    end
    p:stop()
    assert.equal(40, more)
  end)
end)

describe("five thousand idle connections and fifty busy ones", function()
  local function open_files()
    local pipe = io.popen("ulimit -n")
    local n = pipe:read("a")
    pipe:close()
    return tonumber(n) or math.huge
  end

  it("are all answered, and cost no CPU while idle", function()
    if under then return pending("counts time and memory") end
    if not on_linux then return pending("needs /proc") end
    if open_files() < 6000 then return pending("ulimit -n is " .. open_files() .. ", 6000 needed") end
    local p = assert(process.start("", "spec/support/serve.lua"))
    local loop = loop_module.new()
    local transport = require "partline.transport.luasocket"
    local connection = require "partline.connection"
    local message = require "partline.message"
    local function client()
      local conn = assert(transport.connect { host = "127.0.0.1", port = p.port, loop = loop })
      return { conn = conn, reader = connection.reader(conn), writer = connection.writer(conn) }
    end
    local function ask(c)
      c.writer:write(get())
      c.writer:flush()
      local response = assert(message.read_response(c.reader))
      assert(response.status == 200 and response.body:read("a") == "hello world")
    end
    local idle = {}
    local base = p:resident()
    loop.run(function()
      for i = 1, 5000 do
        idle[i] = client()
        ask(idle[i])
      end
    end)
    -- more than half of it is LuaSocket's own object, which has a buffer of 8 KiB inside
    local each = (p:resident() - base) / 5000
    assert.is_true(each < 20, ("%.1f KiB for an idle connection"):format(each))
    socket.sleep(0.1)
    local before = p:cpu()
    socket.sleep(1)
    local used = p:cpu() - before
    assert.is_true(used < 0.025, ("%.2f s of CPU in an idle second"):format(used))
    local served, start = 0, loop.now()
    loop.run(function()
      for _ = 1, 50 do
        loop.spawn(function()
          local c = client()
          for _ = 1, 100 do
            ask(c)
            served = served + 1
          end
          c.conn:close()
        end)
      end
      while served < 5000 do loop.sleep(0.01) end
    end)
    assert.is_true(loop.now() - start < 5, "5,000 requests took " .. loop.now() - start)
    loop.run(function()
      for i = 1, 5000, 7 do ask(idle[i]) end
    end)
    for _, c in ipairs(idle) do c.conn:close() end
    p:stop()
    loop.close()
  end)
end)

describe("in another loop", function()
  it("steps when its descriptor or its time says so", function()
    local loop = loop_module.new("epoll") or loop_module.new("kqueue")
    if not loop then return pending("this system has no descriptor for events") end
    local server = assert(partline.server.start(function() loop.sleep(0.05) return "x" end, { loop = loop }))
    local poll = require "partline.core".poll
    assert.equal("r", server.events())
    while server.timeout() == 0 do server.step(0) end
    assert.is_nil(server.timeout())
    assert.is_nil(poll.wait_until(server.pollfd(), "r", 0))
    local s = assert(socket.connect("127.0.0.1", server.port))
    s:send(get())
    s:settimeout(0)
    local line
    for _ = 1, 100 do -- the other loop
      local left = server.timeout()
      poll.wait_until(server.pollfd(), server.events(), left and poll.now() + left)
      server.step(0)
      line = s:receive("*l")
      if line then break end
    end
    assert.equal("HTTP/1.1 200 OK", line)
    s:close()
    server.close()
    loop.step(0)
    loop.close()
  end)
end)
