-- partline.client against a scripted server: what it sends and gives. What it makes of every kind of answer:
-- client_answers_spec.lua; connections, redirects, timeouts: client_connections_spec.lua; real servers and proxies:
-- client_peers_spec.lua.

local client = require "partline.client"
local loop = require "partline.loop"
local partline = require "partline"
local reader = require "partline.reader"
local server = require "partline.server"
local scripted = require "spec.support.scripted"

local OK, HEAD, always, once = scripted.OK, scripted.HEAD, scripted.always, scripted.once
local request_of, say, with = scripted.request_of, scripted.say, scripted.with

-- ---- requests ----

describe("the client sends", function()
  local function seen_by(opts, method, path)
    local seen = {}
    with(always(OK, seen), function(s)
      assert(s.client.request(method or "GET", s.url .. (path or ""), opts))
      seen.host = "127.0.0.1:" .. s.port
    end)
    return seen[1].head, seen[1].body, seen.host
  end

  it("a request line and Host", function()
    local head, body, host = seen_by(nil, "get", "?q=1#fragment")
    assert.equal("GET", head.method)
    assert.equal("/?q=1", head.target)
    assert.equal(host, head.headers.Host)
    assert.is_nil(head.headers["Content-Length"])
    assert.is_nil(body)
  end)

  it("nothing when it is used wrongly, which is raised at the caller's line", function()
    local function line_of(f, ...)
      local ok, why = pcall(f, ...)
      assert.is_false(ok)
      return tonumber(why:match("client_spec.lua:(%d+): "))
    end
    local function here() return debug.getinfo(2, "l").currentline end
    local own, url = client.new {}, "http://127.0.0.1:1"
    local results = {
      line_of(function() local r = client.get(5) return r end), here(),
      line_of(function() local r = client.request("GET", true) return r end), here(),
      line_of(function() local r = own.get(5) return r end), here(),
      line_of(function() local r = client.get(url, 7) return r end), here(),
      line_of(function() local r = client.get(url, { as = "text" }) return r end), here(),
      line_of(function() local r = client.get(url, { async = true }) return r end), here(),
      line_of(function() local r = client.post(url, { body = "", form = {} }) return r end), here(),
      line_of(function() local r = client.request(5, url) return r end), here(),
    }
    for i = 1, #results, 2 do assert.equal(results[i + 1], results[i]) end
  end)

  it("what the options of this call say, whatever those of the last one said", function()
    local moved = "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
    with(function(c)
      for _ = 1, 100 do
        local request = request_of(c)
        if not request or not say(c, request.path == "/" and moved or OK) then return end
      end
    end, function(s)
      local function status(opts) return assert(client.get(s.url, opts)).status end
      local opts = { follow_redirects = false, proxy = false }
      assert.equal(302, status(opts))
      assert.equal(302, status(opts))
      opts.follow_redirects = nil
      assert.equal(200, status(opts))
      opts.follow_redirects = false
      assert.equal(302, status(opts))
      assert.equal(200, status { max_redirects = 20, proxy = false }) -- as many, one of them what it is anyway
      assert.equal(302, status { follow_redirects = false, proxy = false })
      assert.equal(200, status { proxy = false })
      assert.equal(200, status { proxy = false, limited = false })
      assert.equal(302, status { ["follow-redirects?"] = false, proxy = false })
      assert.equal(200, status { proxy = false, special = false })
      assert.equal("ok", assert(client.get(s.url, { proxy = false, as = "stream" })).body:read("a"))
      assert.equal("ok", assert(client.get(s.url, { proxy = false })).body)
    end)
  end)

  it("every method by its function", function()
    local seen = {}
    with(always("HTTP/1.1 204 No Content\r\n\r\n", seen), function(s)
      for _, name in ipairs { "get", "head", "post", "put", "delete", "patch", "options", "trace" } do
        assert.equal(204, s.client[name](s.url).status)
        assert.equal(204, assert(client[name](s.url, { proxy = false, pool = false })).status)
      end
    end)
    for i, name in ipairs { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE" } do
      assert.equal(name, seen[2 * i].head.method)
    end
    assert.equal(partline.get, client.get)
    assert.equal(partline.request, client.request)
    assert.equal(partline.options, client.options)
  end)

  it("query parameters behind those of the URL", function()
    assert.equal("/?a=1&b=2", seen_by({ query_params = { b = 2, a = "1" } }).target)
    assert.equal("/?a=1&a=2&a=3", seen_by({ query_params = { a = { "2", "3" } } }, "GET", "?a=1").target)
    assert.equal("/p?a=x%20%26%C3%A9", seen_by({ ["query-params"] = { a = "x &é" } }, "GET", "/p").target)
    assert.equal("/p", seen_by({ query_params = {} }, "GET", "/p").target)
  end)

  it("bytes that a URL may hold only encoded, encoded", function()
    assert.equal("/%C3%A9?%7B%22", seen_by(nil, "GET", '/é?{"').target)
  end)

  it("headers of the program, also lists, and its Host", function()
    local head = seen_by { headers = { ["X-A"] = { "1", "2" }, host = "other", ["user-agent"] = "me", ["X-N"] = 5 } }
    assert.equal("1, 2", head.headers["X-A"])
    assert.equal("other", head.headers.Host)
    assert.equal("me", head.headers["User-Agent"])
    assert.equal("5", head.headers["X-N"])
  end)

  it("headers as a list, in its order", function()
    local head = seen_by { headers = { { "X-B", "1" }, { "X-A", "2" }, { "x-b", "3" }, { "host", "other" } } }
    local names = {}
    for name, value in require("partline.headers").each(head.headers) do
      if name:lower():find("^x") or name == "Host" then names[#names + 1] = name .. "=" .. value end
    end
    assert.same({ "Host=other", "X-B=1", "X-A=2", "x-b=3" }, names)
  end)

  it("a CONNECT to host and port", function()
    local head, _, host = seen_by(nil, "connect")
    assert.equal(host, head.target)
  end)

  it("strings, numbers, files and Readers with their length", function()
    local head, body = seen_by({ body = "foo" }, "POST")
    assert.equal(3, head.length)
    assert.equal("foo", body)
    head, body = seen_by({ body = 42 }, "POST")
    assert.equal(2, head.length)
    assert.equal("42", body)
    local file = io.open("Makefile", "rb")
    head, body = seen_by({ body = file }, "PUT")
    assert.equal(#body, head.length)
    file:seek("set", 0)
    assert.equal(file:read("a"), body)
    head, body = seen_by({ body = reader.from_string("foo") }, "POST")
    assert.equal(3, head.length)
    assert.equal("foo", body)
    assert.equal(0, seen_by(nil, "POST").length)
  end)

  it("functions, pipes and objects in chunks; an empty piece does not end them", function()
    local pieces, i = { "ab", "", "cd" }, 0
    local head, body = seen_by({ body = function() i = i + 1 return pieces[i] end }, "POST")
    assert.is_nil(head.length)
    assert.equal("chunked", head.headers["Transfer-Encoding"])
    assert.equal("abcd", body)
    head, body = seen_by({ body = io.popen("printf hello") }, "POST")
    assert.equal("chunked", head.headers["Transfer-Encoding"])
    assert.equal("hello", body)
    local object = { n = 0, read = function(self) self.n = self.n + 1 return self.n < 3 and "x" or nil end }
    assert.equal("xx", select(2, seen_by({ body = object }, "POST")))
    i = 0
    head, body = seen_by({ body = function() i = i + 1 return i < 3 and "z" or nil end, headers = {
      ["Content-Length"] = 2 } },
      "POST")
    assert.equal(2, head.length)
    assert.equal("zz", body)
  end)

  it("tables as JSON", function()
    local head, body
    with(function(c)
      head = request_of(c)
      body = head.body:read("a")
      say(c, 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"b":1}')
    end, function(s)
      assert.same({ b = 1 }, s.client.post(s.url, { body = { a = "x" }, as = "json" }).body)
    end)
    assert.equal('{"a":"x"}', body)
    assert.equal("application/json", head.headers["Content-Type"])
    for _, headers in ipairs {
      { ["content-type"] = "application/json" }, { { "CONTENT-TYPE", "Application/JSON; charset=utf-8" } },
    } do
      assert.equal('{"a":"x"}', select(2, seen_by({ body = { a = "x" }, headers = headers }, "POST")))
    end
  end)

  it("multipart bodies, with exact length or in chunks", function()
    local head, body = seen_by({ multipart = { { name = "a", content = "1" } }, headers = {
      ["content-type"] = "multipart/form-data; boundary=foobar" } }, "POST")
    assert.equal("multipart/form-data; boundary=foobar", head.headers["Content-Type"])
    assert.equal('--foobar\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--foobar--\r\n', body)
    assert.equal(#body, head.length)
    head = seen_by({ multipart = { { content = "1" } }, mime_subtype = "mixed" }, "POST")
    assert.is_truthy(head.headers["Content-Type"]:find("^multipart/mixed; boundary="))
    head = seen_by({ multipart = { { name = "a", content = function() end } } }, "POST")
    assert.is_nil(head.length)
    head, body = seen_by({ form = { a = "1 2" } }, "POST")
    assert.equal("application/x-www-form-urlencoded", head.headers["Content-Type"])
    assert.equal("a=1+2", body)
  end)

  it("credentials of the URL as Authorization", function()
    local seen = {}
    with(always(OK, seen), function(s)
      assert(s.client.get("http://Aladdin:open%20sesame@127.0.0.1:" .. s.port))
      assert(s.client.get("http://a:b@127.0.0.1:" .. s.port, { headers = { authorization = "mine" } }))
    end)
    assert.equal("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", seen[1].head.headers.Authorization)
    assert.equal("mine", seen[2].head.headers.Authorization)
  end)

  it("nothing when the request is not in order", function()
    with(function(c) request_of(c) end, function(s)
      for _, case in ipairs {
        { { headers = { X = "a\r\nY: 1" } }, "invalid-header-value" },
        { { headers = { ["X Y"] = "1" } }, "invalid-header-value" },
        { { headers = { X = "a\0" } }, "invalid-header-value" },
        { { headers = { ["Content-Length"] = 5 }, body = "abc" }, "invalid-header-value" },
        { { headers = { ["Transfer-Encoding"] = "chunked" }, body = "abc" }, "invalid-header-value" },
        { { multipart = { { name = "a\0", content = "" } } }, "invalid-header-value" },
        { {}, "invalid-request-line", "G T" },
        { {}, "bad-url", nil, "/a b" }, { {}, "bad-url", nil, "/\r\nX: 1" }, { {}, "bad-url", nil, "/\0" },
        { { query_params = { a = "b" } }, "bad-url", nil, ":x" },
      } do
        local response, text, code = s.client.request(case[3] or "POST", s.url .. (case[4] or ""), case[1])
        assert.is_nil(response)
        assert.is_string(text)
        assert.equal(case[2], code)
      end
      assert.equal(0, s.count)
    end)
  end)

  it("nothing to URLs it cannot use", function()
    for url, want in pairs {
      ["ftp://h/"] = "unsupported-scheme", ["http://"] = "bad-url", ["http:///x"] = "bad-url", [""] = "bad-url",
      ["http://h:99999/"] = "bad-url", ["http://a b/"] = "bad-url",
    } do
      local response, _, code = client.get(url, { proxy = false })
      assert.is_nil(response)
      assert.equal(want, code, url)
    end
  end)

  it("raises when it is used wrongly", function()
    for _, f in ipairs {
      function() client.get() end, function() client.request(1, "http://h") end, function() client.get("http://h", {
        as = "x" }) end,
      function() client.get("http://h", { async = true }) end, function() client.post("http://h", { body = true }) end,
      function() client.post("http://h", { body = {} }) end,
      function() client.post("http://h", { body = "x", multipart = {} }) end,
      function() client.post("http://h", { multipart = { {} } }) end,
    } do
      assert.has_error(f)
    end
  end)

  it("a URL without a scheme as http, and URLs as tables", function()
    with(always(OK), function(s)
      assert.equal("ok", s.client.get("127.0.0.1:" .. s.port).body)
      assert.equal("ok", s.client.get("localhost:" .. s.port .. "/x").body)
      assert.equal("ok", s.client.get({ scheme = "http", host = "127.0.0.1", port = s.port, path = "/", query = {
        a = 1 } }).body)
    end)
  end)
end)

-- ---- bodies that come ----

describe("a streamed response", function()
  it("gives control before its body is there", function()
    local go = false
    with(function(c)
      request_of(c)
      say(c, HEAD .. "Content-Length: 10\r\n\r\nhello")
      while not go do loop.sleep(0.001) end
      say(c, "world")
    end, function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert.is_true(reader.is_reader(response.body))
      assert.equal("hello", response.body:read(5))
      go = true
      assert.equal("world", response.body:read("a"))
      assert.is_nil(response.body:read(1))
    end)
  end)

  it("without a byte has no connection", function()
    with(always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert.equal(1, s.pool:stats().idle)
      assert.is_nil(response.body:read(1))
    end)
  end)

  it("gives its connection back at its end, without being told", function()
    with(always(OK), function(s)
      for _ = 1, 3 do
        local response = assert(s.client.get(s.url, { as = "stream" }))
        assert.equal("ok", response.body:read("a"))
      end
      assert.equal(1, s.count)
    end)
  end)

  it("gives its connection back when it is closed at its end, and closes it before", function()
    with(always(OK), function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      response.body:skip()
      response.body:close()
      assert.same({ idle = 1, lent = 0 }, s.pool:stats())
      response = assert(s.client.get(s.url, { as = "stream" }))
      response.body:close()
      assert.same({ idle = 0, lent = 0 }, s.pool:stats())
      assert.is_nil(response.http_client.conn.sock)
      assert.equal(1, s.count)
    end)
  end)

  it("lets go of its connection when nobody knows it any more", function()
    with(always(OK), function(s)
      assert(s.client.get(s.url, { as = "stream" }))
      collectgarbage()
      collectgarbage()
      assert.same({ idle = 0, lent = 0 }, s.pool:stats())
    end)
  end)

  it("has trailers", function()
    with(always(HEAD .. "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"), function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert.equal("ok", response.body:read("a"))
      assert.equal("7", response.body:trailers()["X-Sum"])
    end)
  end)

  it("fails when it is cut off", function()
    with(once { HEAD .. "Content-Length: 10\r\n\r\nhello" }, function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert.equal("hello", response.body:read(5))
      local bytes, _, code = response.body:read(5)
      assert.is_nil(bytes)
      assert.equal("unexpected-eof", code)
      response.body:close()
      assert.same({ idle = 0, lent = 0 }, s.pool:stats())
    end)
  end)

  it("is an LTN12 source", function()
    with(always(HEAD .. "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n"), function(s)
      local source, out = assert(s.client.get(s.url, { as = "stream" })).body:source(), {}
      for piece in source do out[#out + 1] = piece end
      assert.equal("ok!", table.concat(out))
    end)
  end)

  it("may be the body of another request", function()
    local seen = {}
    with(always(OK, seen), function(s)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert(s.client.post(s.url, { body = response.body }))
      assert.equal("ok", seen[2].body)
      assert.equal(2, seen[2].head.length)
    end)
  end)
end)

describe("a response in memory", function()
  it("has a limit", function()
    with(always(HEAD .. "Content-Length: 5\r\n\r\nhello"), function(s)
      assert.equal("hello", s.client.get(s.url, { max_body_in_memory = 5 }).body)
      local response, _, code = s.client.get(s.url, { max_body_in_memory = 4 })
      assert.is_nil(response)
      assert.equal("body-too-large", code)
    end)
    with(once { HEAD .. "\r\n", "hel", "lo" }, function(s)
      assert.equal("body-too-large", select(3, s.client.get(s.url, { max_body_in_memory = 4 })))
    end)
  end)

  it("is decoded from JSON, the first of several lines too", function()
    local function json(text)
      local response, why, code
      with(always(HEAD .. "Content-Length: " .. #text .. "\r\n\r\n" .. text), function(s)
        response, why, code = s.client.get(s.url, { as = "json" })
      end)
      return response and response.body, why, code
    end
    assert.same({ a = { 1, 2 } }, json '{"a":[1,2]}')
    assert.equal(5, json "5")
    assert.same({ id = 0 }, json '{"id":0}\n{"id":1}\n')
    assert.equal("", json "")
    for _, bad in ipairs { "{", '{"a":1} x', '{"a":1}\nx', "<html>" } do
      local value, why, code = json(bad)
      assert.is_nil(value)
      assert.is_string(why)
      assert.equal("bad-json", code)
    end
  end)

  it("stays text when an error or a redirect that is not followed is not JSON", function()
    for _, status in ipairs { 500, 302 } do
      local head = "HTTP/1.1 " .. status .. " No\r\nLocation: /there\r\nContent-Length: 6\r\n\r\n"
      with(always(head .. "<html>"), function(s)
        local response = assert(s.client.get(s.url, { as = "json", follow_redirects = false }))
        assert.equal(status, response.status)
        assert.equal("/there", response.headers.Location)
        assert.equal("<html>", response.body)
      end)
    end
  end)
end)

-- ---- errors and callbacks ----

describe("errors", function()
  local NOT_FOUND = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"

  it("of the server are responses", function()
    with(always(NOT_FOUND), function(s)
      local response = assert(s.client.get(s.url))
      assert.equal(404, response.status)
      assert.equal("gone", response.body)
    end)
  end)

  it("are raised with throw_errors, the server's as the response", function()
    with(always(NOT_FOUND), function(s)
      local ok, err = pcall(s.client.get, s.url, { throw_errors = true })
      assert.is_false(ok)
      assert.equal(404, err.status)
      assert.equal("gone", err.body)
      assert.equal("404 Not Found", tostring(err))
      ok, err = pcall(s.client.get, "http://127.0.0.1:1", { ["throw-errors?"] = true })
      assert.is_false(ok)
      assert.equal("refused", err.code)
      assert.is_truthy(tostring(err):find("refused"))
    end)
    with(always(OK), function(s) assert.equal(200, s.client.get(s.url, { throw_errors = true }).status) end)
  end)

  it("of the network are values", function()
    local response, text, code = client.get("http://127.0.0.1:1/", { proxy = false })
    assert.is_nil(response)
    assert.is_truthy(text:find("refused"))
    assert.equal("refused", code)
    assert.equal("host-not-found", select(3, client.get("http://no.such.host.invalid/", { proxy = false })))
  end)

  it("of the body's source are the request's", function()
    with(function(c)
      local request = request_of(c)
      if request then request.body:skip() end
    end, function(s)
      local response, text, code = s.client.post(s.url, { body = function() return nil, "no more tape", "tape" end })
      assert.is_nil(response)
      assert.equal("no more tape", text)
      assert.equal("tape", code)
      assert.has_error(function() s.client.post(s.url, { body = function() error("boom") end }) end)
      assert.equal("unexpected-eof", select(3, s.client.post(s.url, { body = function() end, headers = {
        ["Content-Length"] = 3 } })))
    end)
  end)
end)

describe("async", function()
  local function calls()
    local out = {}
    return out, function(r) out.response = r end, function(e) out.err = e end
  end

  it("returns at once and calls on_response", function()
    with(always(OK), function(s)
      local out, on_response, on_raise = calls()
      local task = s.client.get(s.url, { async = true }, on_response, on_raise)
      assert.is_table(task)
      assert.is_nil(out.response)
      while not loop.finished(task) do loop.sleep(0.001) end
      assert.equal("ok", out.response.body)
      assert.is_nil(out.err)
    end)
  end)

  it("calls on_raise for what goes wrong", function()
    with(always("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), function(s)
      for _, case in ipairs {
        { "http://127.0.0.1:1", {}, function(e) return e.code == "refused" end },
        { "http://a b/", {}, function(e) return e.code == "bad-url" end },
        { s.url, { throw_errors = true }, function(e) return e.status == 500 end },
        { s.url, { body = function() error("boom") end }, function(e) return tostring(e):find("boom") end },
      } do
        local out, on_response, on_raise = calls()
        case[2]["async?"] = true
        local task = s.client.post(case[1], case[2], on_response, on_raise)
        while not loop.finished(task) do loop.sleep(0.001) end
        assert.is_nil(out.response)
        assert.is_truthy(case[3](out.err), tostring(out.err))
      end
      local out, on_response, on_raise = calls()
      local task = s.client.get(s.url, { async = true }, on_response, on_raise)
      while not loop.finished(task) do loop.sleep(0.001) end
      assert.equal(500, out.response.status)
    end)
  end)

  it("runs many at once", function()
    with(function(c)
      while request_of(c) do
        loop.sleep(0.05)
        if not say(c, OK) then return end
      end
    end, function(s)
      local n, before = 0, loop.now()
      for _ = 1, 50 do
        s.client.get(s.url, { async = true }, function() n = n + 1 end, error)
      end
      while n < 50 do loop.sleep(0.005) end
      assert.is_true(loop.now() - before < 1)
      assert.is_true(s.pool:stats().idle <= 8)
    end)
  end)
end)

-- ---- our own server ----

describe("client and server of ours", function()
  it("exchange forms, files and streams", function()
    local form = require "partline.form"
    local big = ("0123456789"):rep(30000)
    loop.run(function()
      local srv = assert(server.start(function(request)
        local f = assert(form.read(request))
        local file = f:file "file"
        local kept = io.open(file.path, "rb"):read("a")
        f:remove()
        return { headers = { ["X-Name"] = f:get "name", ["X-File"] = file.filename }, body = reader.from_string(kept) }
      end))
      local c = client.new { proxy = false, pool = client.pool() }
      for _, content in ipairs { big, reader.from_string(big), (function()
        local n = 0
        return function() n = n + 1 return n <= 30000 and "0123456789" or nil end
      end)() } do
        local response = assert(c.post("http://127.0.0.1:" .. srv.port, { multipart = {
          { name = "name", content = "Ünïcode \"x\"" }, { name = "file", filename = "a.bin", content = content },
        } }))
        assert.equal("Ünïcode \"x\"", response.headers["X-Name"])
        assert.equal("a.bin", response.headers["X-File"])
        assert.equal(big, response.body)
      end
      srv.close()
    end)
  end)
end)
