-- Every limit and timeout of the server: at the limit all is well, one past it the answer is the documented one, and
-- the server goes on.

local partline = require "partline"
local serving = require "spec.support.serving"

local errors = partline.errors
local HOST = "Host: a\r\n"

local function get(fields) return "GET / HTTP/1.1\r\n" .. HOST .. (fields or "") .. "\r\n" end
local function post(fields, body) return "POST / HTTP/1.1\r\n" .. HOST .. fields .. "\r\n" .. (body or "") end

-- Reads whatever there is and tells how much.
local function handler(request)
  local n = 0
  if request.parts then
    for part in request.parts do
      n = n + 1
      part.content:skip()
    end
  elseif request.body then
    n = #assert(request.body:read("a"))
  end
  return tostring(n)
end

-- The status that `bytes` get. What is refused ends the connection, unless only the content was at fault.
local function status_of(t, bytes, code, goes_on)
  local c = t.connect()
  c:send(bytes)
  local response = assert(c:response())
  local refused = response.status ~= 200
  if refused then assert.equal(code, response.body == errors[code].text .. "\n" and code or response.body) end
  if refused and not goes_on then
    assert.equal("close", response.headers.Connection)
  else
    c:send(get("Connection: close\r\n"))
    assert.equal(200, c:response().status)
  end
  assert.is_true(c:ended())
  c:close()
  return response.status
end

-- make(n) → bytes of a request whose measure is n.
local function at_the_limit(limit, status, code, opts, make, goes_on)
  serving.run(handler, opts, function(t)
    assert.equal(200, status_of(t, make(limit)))
    assert.equal(status, status_of(t, make(limit + 1), code, goes_on))
    assert.equal(1, t.server.stats().errors[code])
    assert.equal(200, t.alive())
  end)
end

local function padded_head(n)
  local fixed = #get("X: \r\n")
  return get("X: " .. ("x"):rep(n - fixed) .. "\r\n")
end

local function fields(n) -- Host is one of them
  return get(("X: y\r\n"):rep(n - 1))
end

local function target(n)
  return ("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"):format(("x"):rep(n - 1))
end

local function chunked(body) return post("Transfer-Encoding: chunked\r\n", body) end

describe("limits of a head", function()
  it("16 KiB of it", function() at_the_limit(16384, 431, "header-too-large", {}, padded_head) end)
  it("as many bytes as max_head", function()
    at_the_limit(200, 431, "header-too-large", { max_head = 200 }, padded_head)
    at_the_limit(40000, 431, "header-too-large", { ["max-head"] = 40000 }, padded_head)
  end)
  it("100 field lines", function() at_the_limit(100, 431, "header-too-large", {}, fields) end)
  it("as many field lines as max_fields", function()
    at_the_limit(5, 431, "header-too-large", { max_fields = 5 }, fields)
    at_the_limit(300, 431, "header-too-large", { max_fields = 300 }, fields)
  end)
  it("8 KiB of target", function() at_the_limit(8192, 414, "uri-too-long", {}, target) end)
  it("as many bytes of target as max_target", function()
    at_the_limit(10, 414, "uri-too-long", { max_target = 10 }, target)
  end)

  it("hold for a head that never ends, of any shape", function()
    serving.run(handler, {}, function(t)
      for what, status in pairs {
        ["GET /" .. ("x"):rep(1000000)] = 414, [get():sub(1, -3) .. "X: " .. ("y"):rep(1000000)] = 431,
        [("x"):rep(1000000)] = { [400] = true, [431] = true }, [get():sub(1, -3) .. ("A: b\r\n"):rep(100000)] = 431,
      } do
        local got = tonumber((t.exchange(what) or ""):match("^HTTP/1%.1 (%d+)"))
        if type(status) == "table" then assert.is_true(status[got], got) else assert.equal(status, got) end
      end
    end)
  end)

  it("make a head that trickles in cost linear time", function()
    if os.getenv("PARTLINE_UNDER") then return pending("times mean nothing here") end
    local function cost(n)
      local took
      serving.run(handler, {}, function(t)
        local c = t.connect()
        local head = padded_head(n)
        local start = os.clock()
        for byte in head:gmatch(".") do
          c:send(byte)
          t.loop.sleep(0)
          t.loop.sleep(0)
        end
        assert.equal(200, c:response().status)
        took = os.clock() - start
      end)
      return took
    end
    cost(100)
    local short, long = cost(2000), cost(16000)
    assert.is_true(long < 8 * short * 2.5, ("2,000 bytes: %.3f s, 16,000 bytes: %.3f s"):format(short, long))
  end)
end)

describe("limits of a body", function()
  local function sized(n) return post("Content-Length: " .. n .. "\r\n", ("x"):rep(n)) end
  local function in_chunks(n)
    return chunked(("%x\r\n%s\r\n0\r\n\r\n"):format(n, ("x"):rep(n)))
  end

  it("max_body_in_memory for read('a')", function()
    at_the_limit(1000, 413, "body-too-large", { max_body_in_memory = 1000 }, sized)
    at_the_limit(1000, 413, "body-too-large", { max_body_in_memory = 1000 }, in_chunks)
  end)

  it("64 MiB for read('a') by default, told before anything is read", function()
    serving.run(handler, { drain_bytes = 0, drain_timeout = 0 }, function(t)
      local c = t.connect()
      c:send(post("Content-Length: " .. 64 * 1024 * 1024 + 1 .. "\r\n"))
      assert.equal(413, c:response().status)
    end)
  end)

  it("none while it is streamed", function()
    serving.run(function(request) return tostring(request.body:skip()) end, { max_body_in_memory = 10 }, function(t)
      local c = t.connect()
      c:send(sized(3000000))
      assert.equal("3000000", c:response().body)
    end)
  end)

  it("4 KiB for the line of a chunk size, its end not counted", function()
    local function line(n) return chunked("5;" .. ("x"):rep(n - 2) .. "\r\nhello\r\n0\r\n\r\n") end
    at_the_limit(4096, 413, "chunk-ext-too-large", {}, line)
    at_the_limit(64, 413, "chunk-ext-too-large", { max_chunk_line = 64 }, line)
  end)

  it("16 KiB for the extensions of a whole body", function()
    local function extensions(n)
      local body, chunk = {}, "1;" .. ("x"):rep(999) .. "\r\ny\r\n"
      for i = 1, n // 1000 do body[i] = chunk end
      return chunked(table.concat(body) .. "1;" .. ("x"):rep(n % 1000 - 1) .. "\r\ny\r\n0\r\n\r\n")
    end
    at_the_limit(16384, 413, "chunk-ext-too-large", {}, extensions)
    at_the_limit(2500, 413, "chunk-ext-too-large", { max_chunk_ext = 2500 }, extensions)
  end)

  it("4 KiB of leading zeros in a chunk size", function()
    serving.run(handler, {}, function(t)
      local function zeros(n) return chunked(("0"):rep(n) .. "5\r\nhello\r\n0\r\n\r\n") end
      assert.equal(200, status_of(t, zeros(4000)))
      assert.equal(400, status_of(t, zeros(4096), "bad-chunk-size"))
    end)
  end)

  it("16 KiB of trailers", function()
    local function trailer(n) return chunked("0\r\nX: " .. ("x"):rep(n - 7) .. "\r\n\r\n") end
    at_the_limit(16384, 431, "trailer-too-large", {}, trailer)
    at_the_limit(100, 431, "trailer-too-large", { max_trailer = 100 }, trailer)
  end)
end)

describe("limits of multipart", function()
  local function form(body, boundary)
    local fields_of = ("Content-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n")
    return post(fields_of:format(boundary or "b", #body), body)
  end
  local NAME = 'Content-Disposition: form-data; name="x"\r\n'

  local function parts(n) return form(("--b\r\n" .. NAME .. "\r\nv\r\n"):rep(n) .. "--b--\r\n") end
  local function part_fields(n) return form("--b\r\n" .. NAME .. ("X: y\r\n"):rep(n - 1) .. "\r\nv\r\n--b--\r\n") end
  local function part_head(n)
    return form("--b\r\n" .. NAME .. "X: " .. ("y"):rep(n - #NAME - 7) .. "\r\n\r\nv\r\n--b--\r\n")
  end
  local function boundary(n)
    local b = ("b"):rep(n)
    return form("--" .. b .. "\r\n" .. NAME .. "\r\nv\r\n--" .. b .. "--\r\n", b)
  end

  local function content_limit(limit, status, code, opts, make)
    at_the_limit(limit, status, code, opts, make, true)
  end

  it("1000 parts", function() content_limit(1000, 413, "too-many-parts", {}, parts) end)
  it("max_parts", function() content_limit(3, 413, "too-many-parts", { max_parts = 3 }, parts) end)
  it("16 field lines", function() content_limit(16, 431, "header-too-large", {}, part_fields) end)
  it("max_part_fields", function() content_limit(2, 431, "header-too-large", { max_part_fields = 2 }, part_fields) end)
  it("16 KiB of head", function() content_limit(16384, 431, "header-too-large", {}, part_head) end)
  it("max_part_head", function() content_limit(100, 431, "header-too-large", { max_part_head = 100 }, part_head) end)
  it("70 bytes of boundary", function() content_limit(70, 400, "boundary-too-long", {}, boundary) end)
  it("max_boundary", function() content_limit(200, 400, "boundary-too-long", { max_boundary = 200 }, boundary) end)
end)

describe("timeouts", function()
  -- Seconds until the server ends the connection, and what it said.
  local function until_end(t, c)
    local start = t.loop.now()
    local got = c:rest()
    return t.loop.now() - start, got
  end

  local function about(want, got)
    assert.is_true(got > want * 0.8 and got < want + 0.5, ("%.3f s, expected about %g s"):format(got, want))
  end

  it("are positive numbers of seconds, and math.huge is no limit", function()
    local names = { "head_timeout", "body_timeout", "idle_timeout", "write_timeout", "drain_timeout" }
    local none = {}
    for _, name in ipairs(names) do
      for _, wrong in ipairs { -1, 0 / 0, "1", false, name ~= "drain_timeout" and 0 or -0.1 } do
        local ok, why = pcall(partline.server.start, handler, { [name] = wrong })
        assert.is_false(ok)
        assert.matches(name .. " must be", why)
      end
      none[name] = math.huge
    end
    serving.run(handler, none, function(t)
      local c = t.connect()
      c:send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET ")
      assert.equal(200, c:response().status)
      t.loop.sleep(0.02)
      c:send("/ HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.equal(200, c:response().status)
    end)
  end)

  it("a head must arrive in time: 408, and every byte counts from the first", function()
    serving.run(handler, { head_timeout = 0.15 }, function(t)
      local silent, half, trickling = t.connect(), t.connect(), t.connect()
      half:send("GET / HTTP/1.1\r\nHo")
      t.loop.spawn(function()
        for byte in get("X: " .. ("y"):rep(100) .. "\r\n"):gmatch(".") do
          if not trickling:send(byte) then return end
          t.loop.sleep(0.02)
        end
      end)
      local ends = {}
      for i, c in ipairs { silent, half, trickling } do
        t.loop.spawn(function() ends[i] = { until_end(t, c) } end)
      end
      assert.is_true(serving.eventually(function() return ends[1] and ends[2] and ends[3] end))
      for i = 1, 3 do
        about(0.15, ends[i][1])
        assert.matches("^HTTP/1%.1 408 Request Timeout\r\n.*Connection: close\r\n", ends[i][2])
      end
      assert.equal(3, t.server.stats().errors.timeout)
      assert.equal(200, t.alive())
    end)
  end)

  it("a head must arrive in time though a byte of it comes in every round", function()
    serving.run(handler, { head_timeout = 0.1 }, function(t)
      local c, got = t.connect(), nil
      t.loop.spawn(function() got = c:response() end)
      c:send("GET / HTTP/1.1\r\nX: ")
      local start = t.loop.now()
      while not got and t.loop.now() < start + 1 do
        c:send("x")
        local busy = t.loop.now() + 0.002
        repeat until t.loop.now() > busy
        t.loop.sleep(0)
      end
      about(0.1, t.loop.now() - start)
      assert.equal(408, got.status)
    end)
  end)

  it("the head of a later request has its time from its own first byte", function()
    serving.run(handler, { head_timeout = 0.15, idle_timeout = 5 }, function(t)
      local c = t.connect()
      c:send(get())
      c:response()
      t.loop.sleep(0.3)
      c:send("GET")
      local took, got = until_end(t, c)
      about(0.15, took)
      assert.matches("^HTTP/1%.1 408 ", got)
    end)
  end)

  it("a body must make progress: 408 for a handler that cannot go on without", function()
    serving.run(handler, { body_timeout = 0.15 }, function(t)
      for _, start in ipairs {
        post("Content-Length: 5\r\n", "hel"), chunked("5\r\nhel"),
        post("Content-Length: 50\r\nContent-Type: multipart/form-data; boundary=b\r\n", "--b\r\nContent-Dis"),
      } do
        local c = t.connect()
        c:send(start)
        local took, got = until_end(t, c)
        about(0.15, took)
        assert.matches("^HTTP/1%.1 408 .*Connection: close\r\n", got)
      end
      local c = t.connect()
      c:send(post("Content-Length: 20\r\n"))
      for _ = 1, 20 do -- slow, but it goes on
        t.loop.sleep(0.03)
        c:send("x")
      end
      assert.equal("20", c:response().body)
      assert.equal(200, t.alive())
    end)
  end)

  it("a handler may take a timeout of the body for itself", function()
    serving.run(function(request)
      local got, message, code = request.body:read(5)
      assert(not got)
      local again = request.body:read_some() -- may try once more
      return code .. ", " .. message .. ", then " .. tostring(again)
    end, { body_timeout = 0.1, drain_timeout = 0.05 }, function(t)
      local c = t.connect()
      c:send(post("Content-Length: 5\r\n", "hel"))
      assert.matches("^timeout, timeout.*then hel$", c:response().body)
    end)
  end)

  it("an idle connection is closed without a word", function()
    serving.run(handler, { idle_timeout = 0.15 }, function(t)
      local c = t.connect()
      c:send(get())
      assert.equal(200, c:response().status)
      local took, got = until_end(t, c)
      about(0.15, took)
      assert.equal("", got)
    end)
  end)

  it("a peer that takes nothing is cut off, and its handler told", function()
    local code, took
    serving.run(function()
      return { stream = function(write)
        local start = serving.loop.now()
        local ok = true
        while ok do
          local message
          ok, message, code = write(("x"):rep(65536))
          assert(ok or message)
        end
        took = serving.loop.now() - start
      end }
    end, { write_timeout = 0.2, drain_timeout = 0.1 }, function(t)
      local c = t.connect({ receive_buffer = 8192 })
      c:send(get())
      assert.is_true(serving.eventually(function() return code end))
      assert.equal("timeout", code)
      about(0.2, took)
      assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
      assert.equal(1, t.server.stats().errors.timeout)
    end)
  end)

  it("a slow peer that goes on taking is not cut off", function()
    serving.run(function() return { body = ("x"):rep(8000000) } end, { write_timeout = 0.2 }, function(t)
      local c = t.connect({ receive_buffer = 256 * 1024 })
      c:send(get())
      local got = 0
      for _ = 1, 12 do -- longer than the timeout in all
        t.loop.sleep(0.05)
        got = got + #assert(c:read(300000))
      end
      assert.is_truthy(c:read(8000000 - got))
    end)
  end)

  it("upgraded connections wait as long as they like", function()
    serving.run(function()
      return { headers = { Upgrade = "x" }, upgrade = function(r, w) w:write(r:read("l")) w:flush() end }
    end, { head_timeout = 0.1, body_timeout = 0.1, idle_timeout = 0.1 }, function(t)
      local c = t.connect()
      c:send(get("Connection: upgrade\r\nUpgrade: x\r\n"))
      t.loop.sleep(0.3)
      c:send("still here\n")
      assert.matches("still here$", c:rest())
    end)
  end)
end)

describe("max_connections", function()
  it("lets the next one wait until another leaves", function()
    serving.run(handler, { max_connections = 3 }, function(t)
      local clients = {}
      for i = 1, 4 do
        clients[i] = t.connect()
        clients[i]:send(get())
      end
      for i = 1, 3 do assert.equal(200, clients[i]:response().status) end
      t.loop.sleep(0.1)
      assert.equal(3, t.server.stats().connections)
      assert.equal(3, t.server.stats().accepted)
      clients[2]:close()
      assert.equal(200, clients[4]:response().status)
      assert.equal(4, t.server.stats().accepted)
    end)
  end)

  it("does not keep a full server from stopping", function()
    serving.run(handler, { max_connections = 1 }, function(t)
      local a = t.connect()
      a:send(get())
      a:response()
      t.connect()
      t.loop.sleep(0.02)
      assert.is_true(t.server.stop(1))
    end)
  end)
end)
