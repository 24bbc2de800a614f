-- What the tests of fnl-http's client exercise, with our option names, as far as the other client specs do not: what
-- the server receives, and what comes back from our server and from httpbin. Names in kebab-case are Fennel's.

local client = require "partline.client"
local coding = require "partline.client.coding"
local loop = require "partline.loop"
local multipart = require "partline.multipart"
local partline = require "partline"
local files = require "spec.support.files"
local peers = require "spec.support.peers"
local reader = require "partline.reader"
local scripted = require "spec.support.scripted"

local slow = os.getenv("PARTLINE_UNDER") ~= nil

-- Pieces that another task gives one by one, as a channel would; a body and a part's content are such functions.
local function channel(pieces)
  local queue, over = {}, false
  loop.spawn(function()
    for _, piece in ipairs(pieces) do
      loop.sleep(0.001)
      queue[#queue + 1] = piece
    end
    over = true
  end)
  return function()
    while #queue == 0 and not over do loop.sleep(0.001) end
    return table.remove(queue, 1)
  end
end

local function await(task)
  while not loop.finished(task) do loop.sleep(0.001) end
end

-- ---- what the server receives ----

-- The bytes of a request as they came; nil at the end.
local function raw_request(r)
  local lines = {}
  repeat
    local line = r:read("L")
    if not line then return nil end
    lines[#lines + 1] = line
  until line == "\r\n"
  local head = table.concat(lines)
  local length = tonumber(head:match("Content%-Length: (%d+)\r\n"))
  if length then return head .. (length > 0 and r:read(length) or "") end
  if not head:find("Transfer-Encoding: chunked\r\n", 1, true) then return head end
  return head .. reader.chunked(r):read("a")
end

-- Answers each request with its own bytes.
local function echo(c)
  while true do
    local request = raw_request(c.reader)
    if not request then return end
    scripted.say(c, scripted.HEAD .. "Content-Length: " .. #request .. "\r\n\r\n" .. request)
  end
end

-- → the request line, the fields as { [name] = value } in the names that were sent, the body, of what came back.
local function taken_apart(response)
  assert.equal(200, response.status)
  local line, fields, body = response.body:match("^(.-)\r\n(.-\r\n)\r\n(.*)$")
  local by_name = {}
  for name, value in fields:gmatch("(.-): (.-)\r\n") do
    assert.is_nil(by_name[name])
    by_name[name] = value
  end
  return line, by_name, body
end

describe("the server receives", function()
  it("a string, under a URL without a scheme", function()
    scripted.with(echo, function(s)
      local host = "localhost:" .. s.port
      local line, fields, body = taken_apart(s.client.post(host, { body = "foo" }))
      assert.equal("POST / HTTP/1.1", line)
      assert.equal(host, fields.Host)
      assert.equal("3", fields["Content-Length"])
      assert.equal("foo", body)
    end)
  end)

  it("the query of such a URL, and the parameters behind it", function()
    scripted.with(echo, function(s)
      local function target(path, params)
        return (taken_apart(s.client.post("localhost:" .. s.port .. path, { ["query-params"] = params })))
      end
      assert.equal("POST /?a=1&b=2 HTTP/1.1", target("", { b = "2", a = 1 }))
      assert.equal("POST /?a=1&b=2&c=3 HTTP/1.1", target("?a=1", { b = "2", c = "3" }))
      assert.equal("POST /?a=1&a=2&c=3 HTTP/1.1", target("?a=1", { c = "3", a = "2" }))
      assert.equal("POST /?a=1&a=2&a=3 HTTP/1.1", target("?a=1#top", { a = { "2", "3" } }))
    end)
  end)

  it("fields by whatever case, each once", function()
    scripted.with(echo, function(s)
      local _, fields = taken_apart(s.client.post(s.url, { body = "x", headers = {
        ["user-agent"] = "me", ACCEPT = "text/x", ["content-type"] = "text/y", ["content-length"] = 1, HOST = "h",
        connection = "close",
      } }))
      assert.same({ ["user-agent"] = "me", ACCEPT = "text/x", ["content-type"] = "text/y", ["Content-Length"] = "1",
        Host = "h", connection = "close", ["Accept-Encoding"] = fields["Accept-Encoding"] }, fields)
    end)
  end)

  it("a file as it is, and none that is closed", function()
    scripted.with(echo, function(s)
      local file = io.open("Makefile", "rb")
      local _, fields, body = taken_apart(s.client.post(s.url, { body = file }))
      assert.equal(files.read("Makefile"), body)
      assert.equal(tostring(#body), fields["Content-Length"])
      file:close()
      assert.has_error(function() s.client.post(s.url, { body = file }) end)
      assert.has_error(function() s.client.post(s.url, { multipart = { { name = "f", content = file } } }) end)
      assert.equal(1, s.count)
    end)
  end)

  it("parts with a boundary of the program's, of known length or in chunks", function()
    scripted.with(echo, function(s)
      local makefile = files.read("Makefile")
      local want = table.concat({
        "--foobar", "Content-Disposition: form-data; name=\"foo\"; filename=\"M\"; filename*=UTF-8''%C3%9C",
        "Content-Type: text/x-make", "X-More: 1", "", makefile,
        "--foobar", 'Content-Disposition: form-data; name="bar"', "", "bar",
        "--foobar--", "",
      }, "\r\n")
      local function post(content, length)
        local _, fields, body = taken_apart(s.client.post(s.url, {
          multipart = {
            { name = "foo", content = content, length = length, filename = "M", ["filename*"] = "Ü",
              ["mime-type"] = "text/x-make", headers = { ["X-More"] = 1 } },
            { name = "bar", content = "bar" },
          },
          headers = { ["content-type"] = "multipart/form-data; boundary=foobar" },
        }))
        assert.equal("multipart/form-data; boundary=foobar", fields["Content-Type"])
        assert.equal(want, body)
        return tonumber(fields["Content-Length"])
      end
      local function pieces()
        return channel { makefile:sub(1, 100), makefile:sub(101) }
      end
      assert.equal(#want, post(io.open("Makefile", "rb")))
      assert.equal(#want, post(io.open("Makefile", "rb"), #makefile))
      assert.equal(#want, post(reader.from_file("Makefile")))
      assert.equal(#want, post(pieces(), #makefile))
      assert.is_nil(post(pieces()))
    end)
  end)

  it("bodies that another task makes, in chunks or as much as was told", function()
    scripted.with(echo, function(s)
      local function post(opts)
        local _, fields, body = taken_apart(s.client.post(s.url, opts))
        return body, fields["Content-Length"]
      end
      local function pieces() return channel { "foo", "bar", "baz" } end
      assert.same({ "foobarbaz" }, { post { body = pieces() } })
      assert.same({ "foobarbaz", "9" }, { post { body = pieces(), headers = { ["content-length"] = 9 } } })
      for _, whole in ipairs { pieces(), "foobarbaz", reader.from_string("foobarbaz") } do
        assert.same({ "foobar", "6" }, { post { body = whole, length = 6 } })
      end
      local body = post { multipart = { { name = "a", content = pieces(), length = 6 } }, ["mime-subtype"] = "mixed" }
      assert.is_truthy(body:find("\r\n\r\nfoobar\r\n--", 1, true))
    end)
  end)
end)

-- ---- our own server ----

-- Runs `f(client, url)` beside a server of ours; all in one loop.
local function beside(handler, f)
  loop.run(function()
    local server = assert(partline.server.start(handler))
    local pool = client.pool()
    local ok, err = pcall(f, client.new { proxy = false, pool = pool }, "http://127.0.0.1:" .. server.port)
    pool:close()
    server.close()
    if not ok then error(err, 0) end
  end)
end

-- What was asked, as JSON.
local function tell(request)
  local told = {
    method = request.method, path = request.path, length = request.length, type = request.headers["Content-Type"],
    version = request["protocol-version"],
  }
  if request.parts then
    told.parts = {}
    for part in request.parts do
      told.parts[#told.parts + 1] = {
        name = part.name, filename = part.filename, type = part.type, content = part.content:read("*a"),
        mime = part.headers["Content-Type"],
      }
    end
  elseif request.content then
    told.content = request.content:read("*a")
  end
  return { body = assert(coding.to_json(told)) }
end

describe("our server", function()
  local version = { name = "HTTP", major = 1, minor = 1 }

  it("is told what was asked, and the body", function()
    beside(tell, function(c, url)
      assert.same({ method = "GET", path = "/", version = version }, c.get(url, { as = "json" }).body)
      assert.same({ method = "POST", path = "/", version = version, length = 4, content = "text" },
        c.post(url, { body = "text", as = "json" }).body)
      local makefile = files.read("Makefile")
      for _, body in ipairs { reader.from_file("Makefile"), io.open("Makefile", "rb") } do
        assert.same({ method = "PUT", path = "/a", version = version, length = #makefile, content = makefile },
          c.put(url .. "/a", { body = body, as = "json" }).body)
      end
      assert.same({ method = "POST", path = "/", version = version, content = "foobar" },
        c.post(url, { body = channel { "foo", "bar" }, as = "json" }).body)
    end)
  end)

  it("is given parts", function()
    beside(tell, function(c, url)
      local makefile = files.read("Makefile")
      for _, content in ipairs { io.open("Makefile", "rb"), reader.from_file("Makefile"), channel { makefile } } do
        local told = c.post(url, { as = "json", ["throw-errors?"] = false, multipart = {
          { name = "note", content = "hello" }, { filename = "M", name = "file", content = content },
        }, headers = { ["content-type"] = "multipart/form-data; boundary=foobar" } }).body
        assert.equal("multipart/form-data; boundary=foobar", told.type)
        assert.is_nil(told.content)
        assert.same({
          { name = "note", type = "form-data", content = "hello" },
          { name = "file", type = "form-data", filename = "M", mime = "application/octet-stream", content = makefile },
        }, told.parts)
      end
    end)
  end)

  it("answers with JSON: of known length, or in chunks", function()
    local text = [[
      {
        "show": { "slides": [ { "items": ["a <em>b</em>", null, "\u2603"] }, {}, null ], "id": 17 },
        "author" : null
      }
    ]]
    beside(function(request)
      if request.path == "/whole" then return text end
      return { stream = function(write)
        for i = 1, #text do
          if not write(text:sub(i, i)) then return end
        end
      end }
    end, function(c, url)
      for _, path in ipairs { "/whole", "/chunks" } do
        local response = assert(c.get(url .. path, { as = "json" }))
        assert.same({ show = { slides = { { items = { [1] = "a <em>b</em>", [3] = "☃" } }, {} }, id = 17 } },
          response.body)
        assert.equal("17", tostring(response.body.show.id))
      end
    end)
  end)

  it("answers with parts: a string, or a stream of them", function()
    local function handler(request)
      local content = request.path == "/chunked" and channel { "foo", "bar" } or "foobar"
      return { multipart = { { name = "foo", content = content }, { name = "bar", content = "bar" } } }
    end
    beside(handler, function(c, url)
      local function read(body, content_type)
        local out = {}
        for part in multipart.parse(body, content_type) do out[part.name] = part.content:read("*a") end
        return out
      end
      for _, path in ipairs { "/", "/chunked" } do
        local response = assert(c.get(url .. path))
        assert.equal(path == "/" and #response.body or nil, response.length)
        assert.equal("--\r\n", response.body:sub(-4))
        assert.same({ foo = "foobar", bar = "bar" }, read(response.body, response.headers["content-type"]))
        response = assert(c.get(url .. path, { as = "stream" }))
        assert.same({ foo = "foobar", bar = "bar" }, read(response.body, response.headers["content-type"]))
        response = assert(c.get(url .. path, { as = "stream" }))
        for part in multipart.parse(response.body, response.headers["content-type"]) do
          if part.name == "foo" then
            part.content:close()
            assert.is_nil((part.content:read("*a")))
          else
            assert.equal("bar", part.content:read("*a"))
          end
        end
      end
    end)
  end)

  it("and requests begun before the loop runs, by callbacks", function()
    local seen = {}
    local server = assert(partline.server.start(function(request)
      if request.path == "/away" then return { status = 302, headers = { Location = "/there" } } end
      if request.path == "/round" then return { status = 302, headers = { Location = "/round" } } end
      return request.path
    end))
    local url, pool = "http://127.0.0.1:" .. server.port, client.pool()
    local c = client.new { proxy = false, pool = pool, ["async?"] = true }
    local function note(name, f)
      return function(x) seen[name] = f(x) end
    end
    local unexpected = note("unexpected", tostring)
    local tasks = {
      c.get(url .. "/raw", nil, note("raw", function(r) return r.body end), unexpected),
      c.get(url .. "/stream", { as = "stream" }, note("stream", function(r) return r.body:read("*a") end), unexpected),
      c.get(url .. "/away", {}, note("away", function(r) return r.body .. #r["trace-redirects"] end), unexpected),
      c.get(url .. "/round", { ["max-redirects"] = 3 }, unexpected, note("round", tostring)),
    }
    assert.same({}, seen)
    partline.run(function()
      for _, task in ipairs(tasks) do await(task) end
    end)
    pool:close()
    server.close()
    assert.same({ raw = "/raw", stream = "/stream", away = "/there1", round = "too many redirects" }, seen)
  end)
end)

describe("a multipart response without a length, on a connection that stays open", function()
  local body = table.concat({
    "--b", 'Content-Disposition: form-data; name="foo"', "Transfer-Encoding: chunked", "", "3", "foo", "0", "", "",
    "--b", 'Content-Disposition: form-data; name="bar"', "", "bar",
    "--b--", "",
  }, "\r\n")

  it("ends with its last boundary, for who reads its parts", function()
    local over = false
    scripted.with(function(c)
      scripted.request_of(c)
      scripted.say(c, scripted.HEAD .. "Connection: keep-alive\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
        .. body)
      while not over do loop.sleep(0.001) end
    end, function(s)
      local response = assert(s.client.get(s.url, { as = "stream", body_timeout = 5 }))
      local before, seen = loop.now(), {}
      for part in multipart.parse(response.body, response.headers["content-type"]) do
        seen[#seen + 1] = part.name .. "=" .. part.content:read("*a")
      end
      response.body:close()
      over = true
      assert.same({ "foo=foo", "bar=bar" }, seen)
      assert.is_true(loop.now() - before < 4)
      assert.same({ idle = 0, lent = 0 }, s.pool:stats())
    end)
  end)
end)

-- ---- httpbin ----

describe("httpbin:", function()
  local peer, why, pool, c

  setup(function()
    peer, why = peers.httpbin()
    pool = client.pool()
    c = client.new { proxy = false, pool = pool, head_timeout = 20 }
  end)

  teardown(function()
    pool:close()
    if peer then peer:stop() end
  end)

  -- Each one blocking and inside the loop.
  local function it_both(name, f)
    it(name, function()
      if not peer then return pending(why) end
      f(peer.url)
      loop.run(f, peer.url)
    end)
  end

  -- A response without what differs from one to the next.
  local function told(response)
    local headers = {}
    for name, value in pairs(response.headers) do headers[name] = value end
    headers.Date, headers.Server, headers["Content-Length"], headers["Content-Encoding"] = nil, nil, nil, nil
    assert.is_true(response["request-time"] >= 0)
    assert.is_table(response["http-client"])
    return { status = response.status, reason = response["reason-phrase"], version = response["protocol-version"],
      trace = response["trace-redirects"], headers = headers }
  end

  local function expected(changes)
    local want = {
      status = 200, reason = "OK", version = { name = "HTTP", major = 1, minor = 1 }, trace = {},
      headers = {
        ["Access-Control-Allow-Credentials"] = "true", ["Access-Control-Allow-Origin"] = "*",
        Connection = "keep-alive", ["Content-Type"] = "application/json",
      },
    }
    for key, value in pairs(changes or {}) do
      if key == "headers" then
        for name, field in pairs(value) do want.headers[name] = field end
      else
        want[key] = value
      end
    end
    return want
  end

  it_both("the whole response, by every method", function(url)
    for _, method in ipairs { "get", "post", "put", "patch", "delete" } do
      local response = assert(c[method](url .. "/" .. method, { ["throw-errors?"] = true }))
      assert.same(expected(), told(response))
      assert.equal(#response.body, response.length)
      assert.equal("*", c.request(method, url .. "/" .. method).headers["access-control-allow-origin"])
    end
  end)

  it_both("bodies: a string, Readers, a file, parts", function(url)
    for _, body in ipairs { "foo", reader.from_string("foo"), reader.from_function(coroutine.wrap(function()
      coroutine.yield("fo")
      coroutine.yield("o")
    end)) } do
      local response = assert(c.post(url .. "/post", { body = body, as = "json" }))
      assert.same(expected(), told(response))
      assert.equal("foo", response.body.data)
    end
    local makefile = files.read("Makefile")
    assert.equal(makefile, c.put(url .. "/put", { body = io.open("Makefile", "rb"), as = "json" }).body.data)
    local got = assert(c.post(url .. "/post", { as = "json", multipart = {
      { name = "foo", content = "bar" }, { name = "baz", content = reader.from_string("qux"), filename = "baz.txt" },
      { name = "make", content = io.open("Makefile", "rb"), filename = "Makefile", ["mime-type"] = "text/plain" },
    } })).body
    assert.same({ foo = "bar" }, got.form)
    assert.same({ baz = "qux", make = makefile }, got.files)
  end)

  it_both("redirects, followed or not", function(url)
    local response = assert(c.get(url .. "/absolute-redirect/1"))
    assert.same(expected { trace = { url .. "/get" } }, told(response))
    local html = { ["Content-Type"] = "text/html; charset=utf-8" }
    for _, as in ipairs { "raw", "json" } do
      html.Location = url .. "/get"
      response = assert(c.get(url .. "/absolute-redirect/1", { ["follow-redirects?"] = false, as = as }))
      assert.same(expected { status = 302, reason = "FOUND", headers = html }, told(response))
      response = assert(c.get(url .. "/redirect-to", { ["follow-redirects?"] = false, as = as, ["throw-errors?"] = true,
        ["query-params"] = { url = url .. "/get", status_code = 303 } }))
      assert.same(expected { status = 303, reason = "SEE OTHER", headers = html }, told(response))
    end
    local ok, err = pcall(c.get, url .. "/absolute-redirect/2", { ["max-redirects"] = 1, ["throw-errors?"] = true })
    assert.is_false(ok)
    assert.is_truthy(tostring(err):find("too many redirects", 1, true))
    assert.equal(200, c.get(url .. "/absolute-redirect/2", { ["max-redirects"] = math.huge }).status)
  end)

  it_both("a stream of JSON, its first value or all", function(url)
    local first = c.get(url .. "/stream/3", { as = "json" }).body
    assert.same({ 0, url .. "/stream/3" }, { first.id, first.url })
    local n = 0
    for line in c.get(url .. "/stream/100", { as = "stream" }).body:lines() do
      local value = assert(coding.from_json(line))
      assert.same({ n, url .. "/stream/100" }, { value.id, value.url })
      n = n + 1
    end
    assert.equal(100, n)
  end)

  it_both("a response that drips, after a delay", function(url)
    local response = assert(c.get(url .. "/drip", { ["query-params"] = { duration = 0.2, numbytes = 10, code = 200,
      delay = 0.2 } }))
    assert.equal("**********", response.body)
    assert.equal(10, response.length)
    assert.same(expected { headers = { ["Content-Type"] = "application/octet-stream" } }, told(response))
  end)

  -- Every error status by every method: as a value, raised, and by the callbacks.
  local statuses = {
    400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424,
    425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
  }

  local function check_status(request, url, status)
    local how = url .. ": " .. status
    assert.equal(status, request(url, { ["throw-errors?"] = false }).status, how)
    local ok, err = pcall(request, url, { ["throw-errors?"] = true })
    assert.is_false(ok, how)
    assert.equal(status, err.status, how)
    assert.equal(err.reason_phrase, err["reason-phrase"])
    for _, throw in ipairs { false, true } do
      local response, raised
      await(request(url, { ["async?"] = true, ["throw-errors?"] = throw },
        function(r) response = r end, function(e) raised = e end))
      assert.equal(status, (throw and raised or response).status, how)
      assert.is_nil(throw and response or not throw and raised or nil, how)
    end
  end

  it("every status of an error, by every method", function()
    if not peer then return pending(why) end
    loop.run(function()
      for _, method in ipairs(slow and { "get" } or { "delete", "get", "patch", "post", "put" }) do
        for _, status in ipairs(statuses) do check_status(c[method], peer.url .. "/status/" .. status, status) end
      end
    end)
  end)
end)
