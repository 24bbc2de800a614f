-- partline.client: connections that are kept, redirects, timeouts, Expect, upgrades, Unix sockets.

local client = require "partline.client"
local loop = require "partline.loop"
local server = require "partline.server"
local transport = require "partline.transport.luasocket"
local scripted = require "spec.support.scripted"

local OK, HEAD, always = scripted.OK, scripted.HEAD, scripted.always
local request_of, say, with = scripted.request_of, scripted.say, scripted.with

-- ---- connections ----

describe("connections", function()
  local function connections_for(bytes, n, opts)
    local count
    with(always(bytes), function(s)
      for _ = 1, n do assert(s.client.get(s.url, opts)) end
      count = s.count
    end)
    return count
  end

  it("are used again when both sides agree", function()
    assert.equal(1, connections_for(OK, 5))
    assert.equal(1, connections_for(HEAD .. "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 5))
    assert.equal(1, connections_for("HTTP/1.1 204 No Content\r\n\r\n", 5))
    assert.equal(1, connections_for("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 5))
    assert.equal(3, connections_for("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 3))
    assert.equal(3, connections_for("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 3))
    assert.equal(3, connections_for(OK, 3, { pool = false }))
    assert.equal(3, connections_for(OK, 3, { headers = { Connection = "close" } }))
  end)

  it("are not used again with bytes nobody asked for", function()
    assert.equal(3, connections_for(OK .. "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 3))
    with(function(c, n)
      request_of(c)
      say(c, OK)
      if n == 1 then
        loop.sleep(0.02)
        say(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
      end
      request_of(c)
    end, function(s)
      assert(s.client.get(s.url))
      loop.sleep(0.05)
      assert.equal("ok", s.client.get(s.url).body)
      assert.equal(2, s.count)
    end)
  end)

  it("closed by the server meanwhile are noticed before they are used", function()
    local posts = 0
    with(function(c)
      local request = request_of(c)
      if not request then return end
      if request.method == "POST" then posts = posts + 1 end
      say(c, OK)
    end, function(s)
      assert(s.client.get(s.url))
      loop.sleep(0.01)
      assert(s.client.post(s.url, { body = "x", retry = false }))
      assert.equal(2, s.count)
      assert.equal(1, posts)
    end)
  end)

  it("that die when used are replaced once, if nothing came and the body is still there", function()
    local function serve(c, n)
      local request = request_of(c)
      if request and request.body then request.body:skip() end
      say(c, OK)
      request = request_of(c) -- the second request finds the door closing
      if request and request.body then request.body:skip() end
      if n == 99 then say(c, HEAD) end
    end
    with(serve, function(s)
      assert(s.client.get(s.url))
      assert.equal("ok", s.client.get(s.url).body)
      assert.equal(2, s.count)
      assert.equal("ok", s.client.put(s.url, { body = "again" }).body)
      assert.equal(3, s.count)
      local file = io.open("Makefile", "rb")
      assert.equal("ok", s.client.put(s.url, { body = file }).body)
      assert.equal(4, s.count)
      assert.is_nil((s.client.get(s.url, { retry = false })))
      assert.equal(4, s.count)
      local kept = assert(s.client.get(s.url)).http_client
      local function once()
        local i = 0
        return function() i = i + 1 return i == 1 and "x" or nil end
      end
      assert.equal("ok", s.client.put(s.url, { body = once() }).body) -- on a connection of its own
      assert.equal(6, s.count)
      local response, _, code = s.client.put(s.url, { body = once(), http_client = kept })
      assert.is_nil(response)
      assert.equal("unexpected-eof", code)
      assert.equal(6, s.count)
    end)
  end)

  it("that die are not replaced when something came, or on the first use", function()
    with(function(c)
      request_of(c)
      say(c, OK)
      request_of(c)
      say(c, "HTTP/1.1 2")
    end, function(s)
      assert(s.client.get(s.url))
      assert.equal("unexpected-eof", select(3, s.client.get(s.url)))
      assert.equal(1, s.count)
    end)
    with(function(c) request_of(c) end, function(s)
      assert.equal("unexpected-eof", select(3, s.client.get(s.url)))
      assert.equal(1, s.count)
    end)
  end)

  it("are replaced once only", function()
    with(function(c, n)
      if n == 1 then
        request_of(c)
        say(c, OK)
      end
      request_of(c)
    end, function(s)
      assert(s.client.get(s.url))
      assert.equal("unexpected-eof", select(3, s.client.get(s.url)))
      assert.equal(2, s.count)
    end)
  end)

  it("are kept by scheme, host, port, TLS and proxy", function()
    with(always(OK), function(s)
      assert(s.client.get(s.url))
      assert(s.client.get("http://localhost:" .. s.port))
      assert.equal(2, s.count)
      assert(s.client.get("http://LOCALHOST:" .. s.port))
      assert(s.client.get(s.url))
      assert.equal(2, s.count)
      assert(s.client.get(s.url, { proxy = "http://127.0.0.1:" .. s.port }))
      assert.equal(3, s.count)
      assert.same({ idle = 3, lent = 0 }, s.pool:stats())
    end)
  end)

  it("are limited in number and time", function()
    with(always(OK), function(s)
      local pool = client.pool { max_idle_per_host = 2, idle_timeout = 0.05 }
      local streams = {}
      for i = 1, 4 do streams[i] = assert(s.client.get(s.url, { as = "stream", pool = pool })) end
      assert.equal(4, pool:stats().lent)
      for i = 1, 4 do
        streams[i].body:skip()
        streams[i].body:close()
      end
      assert.same({ idle = 2, lent = 0 }, pool:stats())
      loop.sleep(0.06)
      assert(s.client.get(s.url, { pool = pool }))
      assert.equal(5, s.count)
      pool:close()
      assert.equal(0, pool:stats().idle)
      local small = client.pool { max_idle = 1 }
      assert(s.client.get(s.url, { pool = small }))
      assert(s.client.get("http://localhost:" .. s.port, { pool = small }))
      assert.equal(1, small:stats().idle)
      small:close()
    end)
  end)

  it("are not kept longer than the server promises", function()
    with(always("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=100\r\nContent-Length: 0\r\n\r\n"), function(s)
      assert(s.client.get(s.url))
      assert(s.client.get(s.url))
      assert.equal(2, s.count)
    end)
  end)

  it("can be asked for by http_client, and closed", function()
    with(always(OK), function(s)
      local a = assert(s.client.get(s.url, { as = "stream" }))
      local b = assert(s.client.get(s.url))
      a.body:skip()
      assert.equal(2, s.count)
      for _ = 1, 3 do
        assert.equal(a.http_client, s.client.get(s.url, { http_client = a.http_client }).http_client)
      end
      assert.equal(b.http_client, s.client.get(s.url, { ["http-client"] = b.http_client }).http_client)
      a.http_client:close()
      assert.equal("ok", s.client.get(s.url, { http_client = a.http_client }).body)
      assert.equal(2, s.count)
    end)
  end)
end)

-- ---- redirects ----

describe("redirects", function()
  -- Answers by path: status, location, or 200 with the request written out.
  local function site(routes, seen)
    return function(c)
      while true do
        local request = request_of(c)
        if not request then return end
        local body = request.body and request.body:read("a") or ""
        seen[#seen + 1] = { request = request, body = body }
        local to = routes[request.target]
        local answer = request.method .. " " .. body
        local ok
        if to then
          ok = say(c, ("HTTP/1.1 %d Go\r\nLocation: %s\r\nContent-Length: 4\r\n\r\nmove"):format(to[1], to[2]))
        else
          ok = say(c, ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#answer, request.method == "HEAD"
            and "" or answer))
        end
        if not ok then return end
      end
    end
  end

  local function go(status, method, opts, location)
    local seen, response, text, code = {}, nil, nil, nil
    with(site({ ["/a"] = { status, location or "/b" } }, seen), function(s)
      response, text, code = s.client.request(method, s.url .. "/a", opts)
      seen.url, seen.count = s.url, s.count
    end)
    return response, text, code, seen
  end

  it("are followed, on the same connection, and traced", function()
    for _, status in ipairs { 301, 302, 303, 307, 308 } do
      local response, _, _, seen = go(status, "GET")
      assert.equal(200, response.status)
      assert.same({ seen.url .. "/b" }, response.trace_redirects)
      assert.equal(1, seen.count)
    end
  end)

  it("change the method as they should", function()
    for _, case in ipairs {
      { 301, "POST", "GET " }, { 302, "POST", "GET " }, { 303, "POST", "GET " }, { 307, "POST", "POST foo" }, { 308,
        "POST", "POST foo" },
      { 301, "PUT", "PUT foo" }, { 302, "PUT", "PUT foo" }, { 303, "PUT", "GET " }, { 303, "DELETE", "GET " },
    } do
      local response, _, _, seen = go(case[1], case[2], { body = "foo", headers = { ["Content-Type"] = "text/x",
        ["X-A"] = "1" } })
      assert.equal(case[3], response.body, case[1] .. " " .. case[2])
      local second = seen[2].request
      assert.equal(case[3]:find("foo") and "text/x" or nil, second.headers["Content-Type"])
      assert.equal(case[3]:find("foo") and 3 or nil, second.length)
      assert.equal("1", second.headers["X-A"])
    end
    assert.equal("HEAD", select(4, go(303, "HEAD"))[2].request.method)
  end)

  it("send a body again only when that is possible", function()
    local file = io.open("Makefile", "rb")
    local whole = file:read("a")
    file:seek("set", 0)
    assert.equal("POST " .. whole, go(307, "POST", { body = file }).body)
    assert.is_truthy(go(307, "POST", { multipart = { { name = "a", content = "1" } } }).body:find('name="a"', 1, true))
    local i = 0
    local response, text, code = go(307, "POST", { body = function() i = i + 1 return i == 1 and "x" or nil end })
    assert.is_nil(response)
    assert.is_string(text)
    assert.equal("cannot-replay", code)
  end)

  it("resolve relative references, and encode what a URL may not hold", function()
    local seen = {}
    with(site({ ["/x/a?q"] = { 302, "../b/./c?d#e" }, ["/b/c?d"] = { 302, "?f" }, ["/b/c?f"] = { 302, "é ü" } },
      seen), function(s)
      local response = assert(s.client.get(s.url .. "/x/a", { query_params = "q" }))
      assert.same({ s.url .. "/b/c?d", s.url .. "/b/c?f", s.url .. "/b/%C3%A9%20%C3%BC" }, response.trace_redirects)
    end)
    assert.equal("/b/%C3%A9%20%C3%BC", seen[4].request.target)
  end)

  it("are limited, and can be turned off", function()
    local response, text, code = go(302, "GET", { max_redirects = 5 }, "/a")
    assert.is_nil(response)
    assert.equal("too many redirects", text)
    assert.equal("too-many-redirects", code)
    response = go(302, "GET", { max_redirects = 1 })
    assert.equal(200, response.status)
    response = go(302, "GET", { ["follow-redirects?"] = false })
    assert.equal(302, response.status)
    assert.equal("move", response.body)
    assert.same({}, response.trace_redirects)
    response, text, code = go(302, "GET", { max_redirects = 0 })
    assert.is_nil(response)
    assert.equal("too-many-redirects", code, text)
  end)

  it("to where we do not go are errors", function()
    assert.equal("unsupported-scheme", select(3, go(302, "GET", nil, "ftp://h/")))
    assert.equal("unsupported-scheme", select(3, go(302, "GET", nil, "file:///etc/passwd")))
  end)

  it("without a Location are responses", function()
    with(always("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), function(s)
      assert.equal(302, s.client.get(s.url).status)
    end)
    with(always("HTTP/1.1 304 Not Modified\r\nLocation: /x\r\n\r\n"), function(s)
      assert.equal(304, s.client.get(s.url).status)
    end)
  end)

  it("carry credentials to the same origin, not to another", function()
    local secret = { Authorization = "Bearer x", Cookie = "a=b", ["Proxy-Authorization"] = "y", ["X-Other"] = "z" }
    local _, _, _, seen = go(302, "GET", { headers = secret })
    assert.equal("Bearer x", seen[2].request.headers.Authorization)
    assert.equal("a=b", seen[2].request.headers.Cookie)
    local there = {}
    loop.run(function()
      local other = scripted.start(site({}, there))
      local here = scripted.start(site({ ["/a"] = { 307, other.url .. "/b" } }, {}))
      assert(here.client.post("http://u:p@127.0.0.1:" .. here.port .. "/a", { headers = secret, body = "foo" }))
      other:close()
      here:close()
      there.host = "127.0.0.1:" .. other.port
    end)
    local headers = there[1].request.headers
    assert.equal("foo", there[1].body)
    assert.equal("z", headers["X-Other"])
    assert.equal(there.host, headers.Host)
    assert.is_nil(headers.Authorization)
    assert.is_nil(headers.Cookie)
    assert.is_nil(headers["Proxy-Authorization"])
  end)

  it("with a body of any size do no harm", function()
    with(function(c)
      local request = request_of(c)
      if request.target == "/a" then
        say(c, "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 100000000\r\n\r\n" .. ("x"):rep(200000))
      else
        say(c, OK)
      end
    end, function(s)
      assert.equal("ok", s.client.get(s.url .. "/a").body)
      assert.equal(2, s.count)
    end)
  end)
end)

-- ---- timeouts ----

describe("timeouts", function()
  local function timed(opts, serve)
    local result
    with(serve, function(s)
      local before = loop.now()
      local response, _, code = s.client.get(s.url, opts)
      result = { response, code, loop.now() - before }
    end)
    return result[1], result[2], result[3]
  end

  local function silent(c) request_of(c) loop.sleep(1) end

  local function expect(opts, serve)
    local response, code, took = timed(opts, serve)
    assert.is_nil(response)
    assert.equal("timeout", code)
    assert.is_true(took < 0.9, took)
  end

  it("end the wait for a head", function() expect({ head_timeout = 0.1 }, silent) end)

  it("end a head that trickles", function()
    expect({ head_timeout = 0.1 }, function(c)
      request_of(c)
      for i = 1, 30 do
        if not say(c, ("HTTP/1.1 200 OK\r\nX: 1\r\nabcdefghijklmnop"):sub(i, i)) then return end
        loop.sleep(0.02)
      end
    end)
  end)

  it("end a body without progress, and not one with", function()
    expect({ body_timeout = 0.1 }, function(c)
      request_of(c)
      say(c, HEAD .. "Content-Length: 5\r\n\r\nhe")
      loop.sleep(1)
    end)
    local response = timed({ body_timeout = 0.1 }, function(c)
      request_of(c)
      say(c, HEAD .. "Content-Length: 5\r\n\r\n")
      for _ = 1, 5 do
        loop.sleep(0.04)
        say(c, "x")
      end
    end)
    assert.equal("xxxxx", response.body)
  end)

  it("end the whole", function()
    expect({ timeout = 0.1 }, silent)
    expect({ timeout = 0.1 }, function(c)
      request_of(c)
      say(c, HEAD .. "Content-Length: 50\r\n\r\n")
      for _ = 1, 50 do
        loop.sleep(0.02)
        if not say(c, "x") then return end
      end
    end)
  end)

  it("end the whole of a stream", function()
    with(function(c)
      request_of(c)
      say(c, HEAD .. "Content-Length: 50\r\n\r\nx")
      loop.sleep(1)
    end, function(s)
      local response = assert(s.client.get(s.url, { timeout = 0.1, as = "stream" }))
      assert.equal("x", response.body:read(1))
      assert.equal("timeout", select(3, response.body:read(1)))
    end)
  end)

  it("end a request that nobody reads", function()
    local big = ("x"):rep(32 * 1024 * 1024)
    for _, opts in ipairs { { timeout = 0.2 }, { write_timeout = 0.2 } } do
      opts.body, opts.expect = big, false
      with(function() loop.sleep(3) end, function(s)
        local before = loop.now()
        local response, _, code = s.client.post(s.url, opts)
        assert.is_nil(response)
        assert.equal("timeout", code)
        assert.is_true(loop.now() - before < 2.9)
      end)
    end
  end)

  it("end a connection that is not accepted", function()
    -- a listener whose queue is full does not answer
    local listener = assert(transport.listen { host = "127.0.0.1", backlog = 0 })
    local _, port = listener:getsockname()
    loop.run(function()
      local held = {}
      for i = 1, 4 do held[i] = transport.connect { host = "127.0.0.1", port = port,
        deadline = loop.deadline_in(0.05) } end
      local before = loop.now()
      local response, _, code = client.get("http://127.0.0.1:" .. port, { proxy = false, connect_timeout = 0.1 })
      assert.is_nil(response)
      assert.equal("timeout", code)
      assert.is_true(loop.now() - before < 1)
      for _, conn in pairs(held) do conn:close() end
    end)
    listener:close()
  end)
end)

-- ---- Expect: 100-continue ----

describe("Expect: 100-continue", function()
  local MIB = 1024 * 1024
  local large = ("x"):rep(MIB + 1)

  it("is sent with large bodies only", function()
    local seen = {}
    with(function(c)
      while true do
        local request = request_of(c)
        if not request then return end
        seen[#seen + 1] = request.headers.Expect or "none"
        if request.headers.Expect then say(c, "HTTP/1.1 100 Continue\r\n\r\n") end
        request.body:skip()
        say(c, OK)
      end
    end, function(s)
      local before = loop.now()
      assert(s.client.put(s.url, { body = large }))
      assert(s.client.put(s.url, { body = ("x"):rep(MIB) }))
      assert(s.client.put(s.url, { body = "x", expect = true }))
      assert(s.client.put(s.url, { body = large, expect = false }))
      assert(s.client.put(s.url, { body = "x", headers = { Expect = "100-continue" } }))
      assert.is_true(loop.now() - before < 0.9) -- 100 came, nobody waited
      assert.equal(1, s.count)
    end)
    assert.same({ "100-continue", "none", "100-continue", "none", "100-continue" }, seen)
  end)

  it("does not wait for ever", function()
    with(always(OK), function(s)
      local before = loop.now()
      assert.equal("ok", s.client.put(s.url, { body = large, continue_timeout = 0.1 }).body)
      assert.is_true(loop.now() - before >= 0.1)
      assert.is_true(loop.now() - before < 0.9)
    end)
    with(function(c) -- 100 that comes too late is an interim response
      local request = request_of(c)
      request.body:skip()
      say(c, "HTTP/1.1 100 Continue\r\n\r\n" .. OK)
    end, function(s)
      assert.equal("ok", s.client.put(s.url, { body = large, continue_timeout = 0.05 }).body)
    end)
  end)

  it("spares the body when the answer is final", function()
    local asked = 0
    with(function(c)
      request_of(c)
      say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
      c.reader:skip()
    end, function(s)
      local body = function() asked = asked + 1 return "x" end
      local response = assert(s.client.put(s.url, { body = body, headers = { ["Content-Length"] = 2 * MIB },
        expect = true }))
      assert.equal(413, response.status)
      assert.equal("no", response.body)
      assert.equal(0, asked)
      assert.equal(0, s.pool:stats().idle) -- what follows on it would be taken for the body
    end)
  end)

  it("is dropped when the server does not know it (417)", function()
    local seen = {}
    with(function(c)
      local request = request_of(c)
      seen[#seen + 1] = request.headers.Expect or "none"
      if request.headers.Expect then
        say(c, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      else
        request.body:skip()
        say(c, OK)
      end
    end, function(s)
      local i = 0
      local body = function() i = i + 1 return i <= 2 and "x" or nil end
      assert.equal("ok", s.client.put(s.url, { body = body, expect = true }).body)
    end)
    assert.same({ "100-continue", "none" }, seen)
  end)

  it("meets our own server", function()
    loop.run(function()
      local srv = assert(server.start(function(request)
        if request.target == "/no" then return { status = 403, body = "no" } end
        return tostring(request.body:skip())
      end))
      local c = client.new { proxy = false, pool = client.pool() }
      local before = loop.now()
      assert.equal(tostring(#large), c.put("http://127.0.0.1:" .. srv.port, { body = large }).body)
      local response = c.put("http://127.0.0.1:" .. srv.port .. "/no", { body = large })
      assert.equal(403, response.status)
      assert.is_true(loop.now() - before < 0.9)
      srv.close()
    end)
  end)
end)

-- ---- early answers, upgrades, Unix sockets ----

describe("an answer before the body is sent", function()
  it("counts, although sending failed", function()
    with(function(c)
      request_of(c)
      say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
      loop.sleep(0.05)
    end, function(s)
      local n = 0
      local response = assert(s.client.post(s.url, { body = function()
        n = n + 1
        if n > 2000 then return nil end
        return ("x"):rep(65536)
      end }))
      assert.equal(413, response.status)
      assert.is_true(n < 2000)
      assert.equal(0, s.pool:stats().idle)
    end)
  end)
end)

describe("an upgrade", function()
  it("leaves the connection to the program", function()
    with(function(c)
      local request = request_of(c)
      assert.equal("echo", request.headers.Upgrade)
      say(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhi")
      say(c, c.reader:read(5))
    end, function(s)
      local response = assert(s.client.get(s.url, { headers = { Upgrade = "echo", Connection = "upgrade" } }))
      assert.equal(101, response.status)
      local c = response.http_client
      assert.equal("hi", c.reader:read(2))
      c.writer:write("12345")
      c.writer:flush()
      assert.equal("12345", c.reader:read(5))
      c:close()
    end)
  end)
end)

describe("a Unix socket", function()
  if not transport.has_unix then return pending("this LuaSocket has no Unix sockets") end

  it("is reached with the unix option", function()
    local path = os.tmpname()
    os.remove(path)
    loop.run(function()
      local srv = assert(server.start(function(request)
        if request.target == "/go" then return { status = 302, headers = { Location = "/there" } } end
        return request.headers.Host .. request.target
      end, { unix = path }))
      local c = client.new { unix = path, pool = client.pool() }
      assert.equal("api/x", c.get("http://api/x").body)
      assert.equal("api/there", c.get("http://api/go").body)
      assert.equal("not-found", select(3, client.get("http://api/", { unix = path .. "x" })))
      srv.close()
    end)
  end)
end)
