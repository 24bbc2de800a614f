-- The server as programs and clients see it: requests, responses, bodies both ways, upgrades, errors of handlers.
-- Raw bytes: server_raw_spec.lua; limits and timeouts: server_limits_spec.lua; its life: server_life_spec.lua.

local partline = require "partline"
local reader = require "partline.reader"
local files = require "spec.support.files"
local serving = require "spec.support.serving"
local transport = require "partline.transport.luasocket"

local function get(path, fields)
  return ("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n"):format(path or "/", fields or "")
end

local function post(fields, body)
  return "POST / HTTP/1.1\r\nHost: a\r\n" .. fields .. "\r\n" .. (body or "")
end

local function sized(body)
  return post("Content-Length: " .. #body .. "\r\n", body)
end

local LAST = get("/", "Connection: close\r\n") -- after its answer the connection ends

-- One request, one response.
local function answer(handler, bytes, opts, method)
  local response
  serving.run(handler, opts, function(t)
    local c = t.connect()
    c:send(bytes)
    response = assert(c:response(method))
  end)
  return response
end

local function always(response)
  return function() return response end
end

-- All bytes that answer, until the end.
local function bytes_of(handler, bytes, opts)
  local got
  serving.run(handler, opts, function(t) got = assert(t.exchange(bytes)) end)
  return got
end

describe("a request", function()
  it("has the fields of the design", function()
    local seen
    answer(function(request) seen = request return "" end, get("/a/b?c=d&e", "X-One: 1\r\nx-one: 2\r\n"))
    assert.equal("GET", seen.method)
    assert.equal("/a/b?c=d&e", seen.target)
    assert.equal("/a/b", seen.path)
    assert.equal("c=d&e", seen.query)
    assert.same({ name = "HTTP", major = 1, minor = 1 }, seen.protocol_version)
    assert.same(seen.protocol_version, seen["protocol-version"])
    assert.equal("1, 2", seen.headers["X-ONE"])
    assert.is_nil(seen.body)
    assert.is_nil(seen.content)
    assert.is_nil(seen.length)
  end)

  it("comes in absolute form and as OPTIONS *", function()
    local targets = {}
    serving.run(function(request) targets[#targets + 1] = request.target return "" end, {}, function(t)
      local c = t.connect()
      c:send(get("http://a/b?c"))
      assert.equal(200, c:response().status)
      c:send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.equal(200, c:response().status)
    end)
    assert.same({ "http://a/b?c", "*" }, targets)
  end)

  it("is with the handler before its body is there", function()
    local length, content
    serving.run(function(request)
      length = request.length
      content = request.content:read(3)
      return { body = content .. request.content:read("a") }
    end, {}, function(t)
      local c = t.connect()
      c:send(post("Content-Length: 6\r\n"))
      assert.is_true(serving.eventually(function() return length end))
      assert.equal(6, length)
      assert.is_nil(content)
      c:send("abc")
      assert.is_true(serving.eventually(function() return content end))
      c:send("def")
      assert.equal("abcdef", c:response().body)
    end)
  end)

  it("gives parts while they arrive", function()
    local names = {}
    serving.run(function(request)
      if not request.parts then return "none" end
      for part in request.parts do
        names[#names + 1] = part.name
        part.content:skip()
      end
      return "done"
    end, {}, function(t)
      local c = t.connect()
      c:send(post("Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n"))
      local function chunk(s) c:send(("%x\r\n%s\r\n"):format(#s, s)) end
      chunk('--b\r\nContent-Disposition: form-data; name="one"\r\n\r\nx')
      assert.is_true(serving.eventually(function() return names[1] == "one" end))
      chunk('y\r\n--b\r\nContent-Disposition: form-data; name="two"\r\n\r\nx')
      assert.is_true(serving.eventually(function() return names[2] == "two" end))
      chunk("\r\n--b--\r\n")
      c:send("0\r\n\r\n")
      assert.equal("done", c:response().body)
      c:send(get())
      assert.equal("none", c:response().body)
    end)
  end)

  it("gives trailers after a chunked body", function()
    local response = answer(function(request)
      request.body:skip()
      return request.body:trailers()["X-Sum"]
    end, post("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\nX-Sum: 7\r\nHost: evil\r\n\r\n"))
    assert.equal("7", response.body)
  end)
end)

describe("keep-alive", function()
  it("serves one request after the other on a connection", function()
    local n = 0
    serving.run(function() n = n + 1 return tostring(n) end, {}, function(t)
      local c = t.connect()
      for i = 1, 250 do -- more than get served in one turn
        c:send(get())
        assert.equal(tostring(i), c:response().body)
      end
      assert.equal(1, t.server.stats().accepted)
    end)
  end)

  it("answers pipelined requests in order, whatever each of them takes", function()
    serving.run(function(request)
      serving.sleep(tonumber(request.path:sub(2)) / 1000)
      return request.path .. (request.body and request.body:read("a") or "")
    end, {}, function(t)
      local c = t.connect()
      c:send(get("/20"), (sized("abc"):gsub("POST /", "POST /5")), get("/10"))
      c:send(get("/0", "Connection: close\r\n"), get("/99"))
      for _, want in ipairs { "/20", "/5abc", "/10", "/0" } do assert.equal(want, c:response().body) end
      assert.is_true(c:ended())
    end)
  end)

  it("lets the others in between a thousand pipelined requests", function()
    local order = {}
    serving.run(function(request) order[#order + 1] = request.path return "" end, {}, function(t)
      local a, b = t.connect(), t.connect()
      a:send(get("/a"):rep(1000))
      b:send(get("/b"))
      b:response()
      for _ = 1, 1000 do a:response() end
      local at
      for i, path in ipairs(order) do
        if path == "/b" then at = i end
      end
      assert.is_true(at <= 300, "came as number " .. at)
    end)
  end)

  it("gives the others their turn after a hundred or two, plain requests or not", function()
    local mixed = get("/"):rep(99) .. get("/", "Expect: 100-continue\r\n")
    for _, bytes in ipairs { get("/"):rep(1000), mixed:rep(10) } do
      local run, most, over = 0, 0, false
      serving.run(function()
        run = run + 1
        most = math.max(most, run)
        return ""
      end, {}, function(t)
        local c = t.connect()
        c:send(bytes)
        t.loop.spawn(function()
          while not over do
            run = 0
            t.loop.sleep(0)
          end
        end)
        for _ = 1, 1000 do c:response() end
        over = true
      end)
      assert.is_true(most <= 200, most .. " in a turn")
    end
  end)

  local function connection_of(bytes, handler)
    local response, closed
    serving.run(handler or always("x"), { idle_timeout = 0.2 }, function(t)
      local c = t.connect({ timeout = 0.1 })
      c:send(bytes)
      response = c:response()
      closed = c:ended()
    end)
    return response.headers.Connection or "", closed
  end

  it("ends where somebody says close, and tells it", function()
    assert.same({ "", false }, { connection_of(get()) })
    assert.same({ "close", true }, { connection_of(LAST) })
    assert.same({ "close", true }, { connection_of(get("/", "Connection: x, Close\r\n")) })
    assert.same({ "close", true }, { connection_of(get(), always { headers = { Connection = "close" } }) })
    assert.same({ "x, close", true }, { connection_of(LAST,
      always { headers = { Connection = "x" } }) })
  end)

  it("is asked for by HTTP/1.0", function()
    assert.same({ "close", true }, { connection_of("GET / HTTP/1.0\r\n\r\n") })
    assert.same({ "keep-alive", false }, { connection_of("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") })
  end)
end)

describe("a response", function()
  it("has status, reason, date and length", function()
    local got = bytes_of(always { status = 404, headers = { ["X-A"] = "b" }, body = "gone" },
      LAST)
    local head, body = got:match("^(.-\r\n)\r\n(.*)$")
    assert.matches("^HTTP/1%.1 404 Not Found\r\n", head)
    assert.matches("\r\nX%-A: b\r\n", head)
    assert.matches("\r\nContent%-Length: 4\r\n", head)
    assert.matches("\r\nDate: %a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT\r\n", head)
    assert.equal("gone", body)
  end)

  it("may bring its own date and reason", function()
    local got = bytes_of(always { reason_phrase = "Fine", headers = { date = "then" } }, LAST)
    assert.matches("^HTTP/1%.1 200 Fine\r\n", got)
    assert.matches("\r\ndate: then\r\n", got)
    assert.is_nil(got:find("Date:", 1, true))
    assert.matches("\r\nContent%-Length: 0\r\n", got)
  end)

  it("may be a string, a Reader or a number of other things", function()
    local r = answer(always("text"), get())
    assert.equal("text", r.body)
    assert.equal("text/plain; charset=utf-8", r.headers["Content-Type"])
    r = answer(always(reader.from_string("read")), get())
    assert.equal("read", r.body)
    assert.equal(4, r.length)
    assert.equal("42", answer(always { body = 42 }, get()).body)
    assert.equal("", answer(always {}, get()).body)
  end)

  it("repeats fields given as a list, and keeps an order given as pairs", function()
    local headers = { { "B", "1" }, { "A", "2" }, { "B", 3 }, ["Set-Cookie"] = { "x=1", "y=2" } }
    local got = bytes_of(always { headers = headers }, LAST)
    assert.matches("B: 1\r\nA: 2\r\nB: 3\r\n", got)
    assert.matches("Set%-Cookie: x=1\r\nSet%-Cookie: y=2\r\n", got)
  end)

  it("sends the pieces of a function as chunks, but no empty ones", function()
    local pieces = { "one", "", "two", ("x"):rep(70000) }
    local i = 0
    local got = bytes_of(always { body = function() i = i + 1 return pieces[i] end }, LAST)
    assert.matches("\r\nTransfer%-Encoding: chunked\r\n", got)
    assert.is_nil(got:find("Content-Length", 1, true))
    assert.matches("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n", got)
    assert.matches("\r\n0\r\n\r\n$", got)
  end)

  it("lets a function's pieces out as they come", function()
    local n = 0
    serving.run(always { body = function()
      n = n + 1
      if n > 2 then serving.sleep(10) end
      return "piece" .. n
    end }, {}, function(t)
      local c = t.connect()
      c:send(get())
      local bytes = ""
      while not bytes:find("piece2", 1, true) do bytes = bytes .. assert(c.reader:read_some()) end
    end)
  end)

  it("uses a length that the headers give for a body of unknown length", function()
    local i = 0
    local r = answer(always { headers = { ["content-length"] = 6 }, body = function()
      i = i + 1
      return i <= 2 and "abc" or nil
    end }, get())
    assert.equal("abcabc", r.body)
    assert.equal(6, r.length)
    assert.is_nil(r.headers["Transfer-Encoding"])
  end)

  it("goes to HTTP/1.0 without chunks, up to the close", function()
    local i = 0
    local got = bytes_of(always { body = function() i = i + 1 return i <= 3 and "abc" or nil end },
      "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert.is_nil(got:find("Transfer-Encoding", 1, true))
    assert.matches("\r\nConnection: close\r\n", got)
    assert.matches("\r\n\r\nabcabcabc$", got)
  end)

  it("sends files with their length, from where they stand, and closes them", function()
    local path = files.temporary(("0123456789"):rep(30000))
    local file = assert(io.open(path, "rb"))
    file:seek("set", 5)
    local r = answer(always { body = file }, get())
    assert.equal(300000 - 5, r.length)
    assert.equal("56789", r.body:sub(1, 5))
    assert.equal("closed file", io.type(file))
    local whole = reader.from_file(path, { from = 10, to = 19 })
    assert.equal("0123456789", answer(always { body = whole }, get()).body)
    assert.matches("closed", tostring(whole))
    os.remove(path)
  end)

  it("streams what a function writes", function()
    local write_results = {}
    local r = answer(always { headers = { ["Content-Type"] = "text/plain" }, stream = function(write)
      local pieces = { "a", "", "bc", ("d"):rep(100000) }
      for i, piece in ipairs(pieces) do write_results[i] = write(piece) end
    end }, get())
    assert.equal("abc" .. ("d"):rep(100000), r.body)
    assert.same({ true, true, true, true }, write_results)
    assert.is_nil(r.length)
  end)

  it("streams with a Content-Length, and holds the stream to it", function()
    local function stream(...)
      local pieces = { ... }
      return { headers = { ["Content-Length"] = "5" }, stream = function(write)
        for _, piece in ipairs(pieces) do write(piece) end
      end }
    end
    local r = answer(always(stream("he", "llo")), get())
    assert.equal("hello", r.body)
    assert.equal(5, r.length)
    serving.run(always(stream("hello!")), { may_fail = true }, function(t)
      assert.equal(500, t.exchange(LAST):match("^HTTP/1%.1 (%d+)") + 0)
      assert.matches("longer than its Content%-Length", t.failures[1].text)
    end)
    serving.run(always(stream("hell")), { may_fail = true }, function(t)
      local got = t.exchange(get())
      assert.matches("\r\n\r\nhell$", got) -- and the end of the connection
      assert.matches("shorter than its Content%-Length", t.failures[1].text)
    end)
  end)

  it("sends trailers from a table or a function", function()
    local r = answer(always { body = "abc", trailers = { ["X-Sum"] = "6", ["X-B"] = { "1", "2" } } }, get())
    assert.equal("abc", r.body)
    assert.equal("6", r.trailers["x-sum"])
    assert.equal("1, 2", r.trailers["X-B"])
    assert.equal("X-B, X-Sum", r.headers.Trailer)
    local sum = 0
    r = answer(always { stream = function(write) sum = 3 write("abc") end,
      trailers = function() return { ["X-Sum"] = sum } end }, get())
    assert.equal("abc", r.body)
    assert.equal("3", r.trailers["X-Sum"])
    assert.is_nil(r.headers.Trailer)
    r = answer(always { trailers = { A = "1" } }, get())
    assert.equal("1", r.trailers.A)
    r = answer(always { body = "x", trailers = { A = "1" } }, "GET / HTTP/1.0\r\n\r\n")
    assert.equal(1, r.length)
  end)

  it("is multipart, of known length where its parts are", function()
    local multipart = require "partline.multipart"
    local path = files.temporary(("x"):rep(100000))
    local function parts(last)
      local file = { name = "f", filename = "f.bin", content = reader.from_file(path) }
      return { { name = "a", content = "one" }, file, last }
    end
    local n = 0
    local function twice()
      n = n + 1
      return n < 3 and "ab" or nil
    end
    for _, response in ipairs {
      { multipart = parts() },
      { status = 206, multipart = parts { name = "g", content = twice } },
    } do
      local r = answer(always(response), get())
      assert.equal(response.status or 200, r.status)
      assert.equal(response.status == nil, r.length ~= nil)
      local got = {}
      for part in multipart.parse(r.body, r.headers["Content-Type"]) do
        got[part.name] = part.content:read("a")
      end
      assert.equal("one", got.a)
      assert.equal(100000, #got.f)
      assert.equal(response.status and "abab" or nil, got.g)
    end
    local byteranges = { subtype = "byteranges", { content = "x", mime_type = "text/plain" } }
    assert.matches("^multipart/byteranges; ", answer(always { multipart = byteranges }, get()).headers["Content-Type"])
    os.remove(path)
  end)

  it("sends a head alone to HEAD, with 204 and 304", function()
    local called = false
    serving.run(function(request)
      if request.path == "/stream" then return { stream = function() called = true end } end
      if request.path == "/told" then return { headers = { ["Content-Length"] = "1234" } } end
      if request.path == "/none" then return {} end
      local status = tonumber(request.path:sub(2))
      return { status = status, body = status == 200 and "hello" or "must not be sent",
        headers = status == 304 and { ["Content-Length"] = "99" } or nil }
    end, {}, function(t)
      local c = t.connect()
      local function head(method, path)
        c:send((get(path):gsub("^GET", method)))
        local bytes = ""
        while not bytes:find("\r\n\r\n$") do bytes = bytes .. assert(c.reader:read(1)) end
        return bytes
      end
      assert.matches("\r\nContent%-Length: 5\r\n", head("HEAD", "/200"))
      assert.matches("\r\nTransfer%-Encoding: chunked\r\n", head("HEAD", "/stream"))
      assert.is_false(called)
      assert.matches("\r\nContent%-Length: 1234\r\n", head("HEAD", "/told"))
      assert.is_nil(head("HEAD", "/none"):find("Content-Length", 1, true))
      local no_content = head("GET", "/204")
      assert.matches("^HTTP/1%.1 204 No Content\r\n", no_content)
      assert.is_nil(no_content:find("Content-Length", 1, true))
      assert.matches("\r\nContent%-Length: 99\r\n", head("GET", "/304"))
      c:send(get("/200"))
      assert.equal("hello", c:response().body) -- nothing was left in between
    end)
  end)

  local bad = {
    ["a Transfer-Encoding"] = { headers = { ["Transfer-Encoding"] = "chunked" }, body = "x" },
    ["a wrong Content-Length"] = { headers = { ["Content-Length"] = 2 }, body = "x" },
    ["a Content-Length that is none"] = { headers = { ["Content-Length"] = "0x1" }, body = "x" },
    ["two lengths"] = { headers = { ["Content-Length"] = "1", ["content-length"] = "1" }, body = "x" },
    ["a Content-Length beside trailers"] = { headers = { ["Content-Length"] = "1" }, trailers = {}, body = "x" },
    ["a line end in a value"] = { headers = { A = "x\r\nB: y" } },
    ["a line end in a name"] = { headers = { ["A: x\r\nB"] = "y" } },
    ["an empty name"] = { headers = { [""] = "y" } },
    ["a table as a value"] = { headers = { A = { {} } } },
    ["NUL in a value"] = { headers = { A = "\0" } },
    ["a line end in the reason"] = { reason_phrase = "x\r\nA: b" },
    ["a status that is none"] = { status = 42 },
    ["a status in words"] = { status = "200" },
    ["an interim status"] = { status = 100 },
    ["101 without upgrade"] = { status = 101 },
    ["a body of no known kind"] = { body = {} },
    ["a boolean body"] = { body = true },
    ["a trailer that frames"] = { body = "x", trailers = { ["Content-Length"] = "1" } },
    ["a trailer with a line end"] = { body = "x", trailers = { A = "1\n" } },
  }
  for name, response in pairs(bad) do
    it("is refused with " .. name .. ": 500, on_error, and the connection goes on", function()
      serving.run(function(request) return request.path == "/alive" and "" or response end, { may_fail = true },
        function(t)
          local c = t.connect()
          c:send(get())
          local r = assert(c:response())
          assert.equal(500, r.status)
          assert.equal("Internal Server Error\n", r.body)
          assert.equal(1, #t.failures)
          c:send(get("/alive"))
          assert.equal(200, c:response().status)
        end)
    end)
  end

  for name, value in pairs { ["nil"] = "nil", number = 5, boolean = true } do
    it("that is a " .. name .. " is the handler's mistake", function()
      if name == "nil" then value = nil end
      serving.run(function() return value end, { may_fail = true }, function(t)
        local c = t.connect()
        c:send(get())
        assert.equal(500, c:response().status)
        assert.matches("the handler returned a " .. name, t.failures[1].text)
      end)
    end)
  end

  it("goes to a slow receiver byte-exact over 32 MB, and stops the handler meanwhile", function()
    local block = {}
    for i = 0, 4095 do block[#block + 1] = ("%07d\n"):format(i) end
    local piece = table.concat(block)
    local count, written = 1024, 0
    serving.run(function(request)
      if request.path == "/string" then return piece:rep(count) end
      if request.path == "/reader" then return reader.from_string(piece:rep(count)) end
      return { headers = { ["Content-Length"] = #piece * count }, stream = function(write)
        for _ = 1, count do
          assert(write(piece))
          written = written + #piece
        end
      end }
    end, {}, function(t)
      for _, path in ipairs { "/stream", "/string", "/reader" } do
        local c = t.connect({ receive_buffer = 16384 })
        c:send(get(path))
        serving.sleep(0.05)
        if path == "/stream" then
          assert.is_true(written < 16 * 1024 * 1024, "written to a peer that does not read: " .. written)
        end
        local message = require "partline.message"
        local body = assert(message.read_response(c.reader)).body
        local at = 0
        assert(body:copy(function(bytes)
          local from = at % #piece
          local want = piece:sub(from + 1) .. piece:rep(#bytes // #piece + 1)
          if bytes ~= want:sub(1, #bytes) then error("differs near byte " .. at) end
          at = at + #bytes
          if at % 7 == 0 then serving.sleep(0) end
        end))
        assert.equal(32 * 1024 * 1024, at)
        c:close()
      end
    end)
  end)
end)

-- Plain requests with plain answers are served in C, the others in Lua, and so is everything where there is a log: the
-- bytes have to be the same.
describe("a plain answer", function()
  local answers = {
    ["a string"] = "hello", ["an empty string"] = "", ["a body"] = { body = "hello" },
    ["a status"] = { status = 404, body = "none" }, ["a status of our own"] = { status = 299, body = "?" },
    ["no content"] = { status = 204, body = "" }, ["reset content"] = { status = 205, body = "" },
    ["not modified"] = { status = 304, body = "" }, ["only a status"] = { status = 200 },
    ["nothing at all"] = {}, ["a number as body"] = { body = 5 }, ["a float"] = { status = 200.0, body = "x" },
    ["a status too low"] = { status = 42, body = "x" }, ["a status too high"] = { status = 1000, body = "x" },
    ["an interim status"] = { status = 100, body = "x" }, ["a status in words"] = { status = "OK", body = "x" },
    ["a field more"] = { body = "x", note = "y" }, ["a list"] = { "x", body = "y" },
    ["headers"] = { body = "x", headers = { ["X-One"] = "1" } }, ["a reason"] = { body = "x", reason_phrase = "Fine" },
    ["a long body"] = { body = ("x"):rep(5000) }, ["64 KiB"] = { body = ("x"):rep(65536) },
    ["more than 64 KiB"] = { body = ("x"):rep(65537) }, ["3 MiB"] = ("y"):rep(3 << 20),
    ["an object"] = setmetatable({}, { __index = { status = 404, body = "inherited" } }),
    ["an object of its own"] = setmetatable({ body = "own" }, { __index = { status = 404 } }),
    ["a number"] = 5, ["a stream"] = { stream = function(write) write("s") end },
    ["bytes of all kinds"] = { body = "\0\r\n\255" },
  }
  local requests = {
    once = LAST, twice = get() .. LAST, head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" .. LAST,
    old = "GET / HTTP/1.0\r\n\r\n", ["a body"] = sized("abc") .. LAST,
    garbage = get() .. "\1\r\n\r\n",
  }
  local function undated(bytes) return (bytes:gsub("\r\nDate: [^\r]*", "\r\nDate: now")) end

  for name, response in pairs(answers) do
    it("is the same with and without a log: " .. name, function()
      for kind, bytes in pairs(requests) do
        local logged = bytes_of(always(response), bytes, { log = function() end, may_fail = true })
        assert.equal(undated(logged), undated(bytes_of(always(response), bytes, { may_fail = true })), kind)
      end
    end)
  end

  it("has the Date of now", function()
    local value = answer(always("x"), LAST).headers.Date
    local before, day = os.time(), "!%a, %d %b %Y %H:%M:%S GMT"
    local near = {}
    for back = 0, 2 do near[os.date(day, before - back)] = true end
    assert.is_true(near[value], value)
  end)

  it("does not depend on what the handler does to the request", function()
    local function change(request)
      request.method = request.method == "HEAD" and "GET" or "HEAD"
      return "hello"
    end
    local got = bytes_of(change, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" .. LAST)
    assert.equal(1, select(2, got:gsub("hello", "")))
    assert.equal("hello", got:sub(-5))
  end)

  it("waits for its turn behind a handler that waits", function()
    serving.run(function(request)
      if request.path == "/slow" then partline.sleep(0.05) end
      return request.path
    end, nil, function(t)
      local slow, c = t.connect(), t.connect()
      slow:send(get("/slow"), get("/1"), get("/2"))
      c:send(get("/other"))
      assert.equal("/other", c:response().body)
      for _, path in ipairs { "/slow", "/1", "/2" } do assert.equal(path, slow:response().body) end
      assert.equal(4, t.server:stats().requests)
    end)
  end)

  it("counts its request before the handler runs, and tells of all its failures", function()
    local counted
    serving.run(function(request)
      if request.path == "/count" then return tostring(counted()) end
      error(request.path == "/object" and { status = 403, message = "no" } or "plain failure", 0)
    end, { may_fail = true }, function(t)
      counted = function() return t.server:stats().requests end
      local c = t.connect()
      c:send(get("/count"), get("/object"), get("/text"), get("/count"))
      assert.equal("1", c:response().body)
      assert.equal(403, c:response().status)
      assert.equal(500, c:response().status)
      assert.equal("4", c:response().body)
      assert.equal(1, #t.failures)
    end)
  end)
end)

describe("100-continue", function()
  local EXPECT = "Expect: 100-continue\r\n"

  it("is sent when the handler first waits for the body", function()
    local asked
    serving.run(function(request)
      serving.sleep(0.02)
      asked = true
      return request.content:read("a")
    end, {}, function(t)
      local c = t.connect()
      c:send(post(EXPECT .. "Content-Length: 5\r\n"))
      assert.equal("HTTP/1.1 100 Continue", (c:read("l"):gsub("\r", "")))
      assert.is_true(asked)
      assert.equal("\r", c:read("l"))
      c:send("hello")
      local r = c:response()
      assert.equal("hello", r.body)
      assert.is_nil(r.headers.Connection)
      c:send(get("/", ""))
    end)
  end)

  it("is not sent when the body is there already", function()
    local got = bytes_of(function(request) return request.content:read("a") end,
      post(EXPECT .. "Content-Length: 5\r\nConnection: close\r\n", "hello"))
    assert.matches("^HTTP/1%.1 200 OK", got)
  end)

  it("is not sent when the body is there already, and the connection goes on", function()
    serving.run(function(request) return request.content:read(3) end, {}, function(t)
      local c = t.connect()
      for _, whole in ipairs { "hel", "hello" } do -- what is left is on its way
        c:send(post(EXPECT .. "Content-Length: " .. #whole .. "\r\n", whole))
        local r = c:response()
        assert.equal("hel", r.body)
        assert.is_nil(r.headers.Connection)
      end
    end)
  end)

  it("is not sent when nobody reads: the answer ends the connection", function()
    local got = bytes_of(always { status = 403, body = "no" }, post(EXPECT .. "Content-Length: 5\r\n"))
    assert.matches("^HTTP/1%.1 403 ", got)
    assert.matches("\r\nConnection: close\r\n", got)
  end)

  it("is sent for parts and for a body that is sent back", function()
    serving.run(function(request)
      if request.parts then
        return request.parts().content:read("a")
      end
      return { body = request.body }
    end, {}, function(t)
      for _, fields in ipairs { "Content-Type: multipart/form-data; boundary=b\r\n", "" } do
        local c = t.connect()
        local body = '--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nhello\r\n--b--\r\n'
        c:send(post(EXPECT .. fields .. "Content-Length: " .. #body .. "\r\n"))
        assert.equal("HTTP/1.1 100 Continue\r\n\r\n", c:read(25))
        c:send(body)
        assert.equal(fields == "" and body or "hello", c:response().body)
      end
    end)
  end)

  it("is all that can be expected: 417", function()
    local got = bytes_of(always "x", post("Expect: tea\r\nContent-Length: 5\r\n", "hello"))
    assert.matches("^HTTP/1%.1 417 Expectation Failed", got)
    got = bytes_of(always "x", get("/", "Expect: tea\r\n"))
    assert.matches("^HTTP/1%.1 417 ", got)
  end)
end)

describe("a body that the handler leaves unread", function()
  it("is drained, and the connection goes on", function()
    serving.run(function(request)
      if request.path == "/some" then request.content:read(10) end
      return "early"
    end, {}, function(t)
      local c = t.connect()
      for _, path in ipairs { "/", "/some", "/" } do
        c:send((sized(("x"):rep(100000)):gsub("POST /", "POST " .. path)))
        local r = assert(c:response())
        assert.equal("early", r.body)
        assert.is_nil(r.headers.Connection)
      end
      c:send(post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), get())
      assert.equal("early", c:response().body)
      assert.equal("early", c:response().body)
      assert.equal(1, t.server.stats().accepted)
    end)
  end)

  it("of 1 MiB is drained; one byte more ends the connection, said beforehand", function()
    local MIB = 1024 * 1024
    serving.run(always "early", {}, function(t)
      local c = t.connect()
      c:send(sized(("x"):rep(MIB)))
      assert.is_nil(c:response().headers.Connection)
      c:send(sized(("x"):rep(MIB + 1)))
      local r = c:response()
      assert.equal("early", r.body)
      assert.equal("close", r.headers.Connection)
      assert.is_true(c:ended())
    end)
  end)

  it("of unknown length ends the connection past 1 MiB, and the answer arrives", function()
    serving.run(always "early", { drain_timeout = 0.2 }, function(t)
      local c = t.connect()
      c:send(post("Transfer-Encoding: chunked\r\n"))
      assert.equal("early", c:response().body)
      local chunk = "10000\r\n" .. ("x"):rep(65536) .. "\r\n"
      local sent = 0
      while c:send(chunk) do
        sent = sent + 65536
        assert.is_true(sent < 64 * 1024 * 1024, "the server reads on and on")
      end
    end)
  end)

  it("that never comes ends the connection after the drain timeout", function()
    serving.run(always "early", { drain_timeout = 0.1 }, function(t)
      local c = t.connect()
      c:send(post("Content-Length: 5\r\n"))
      assert.equal("early", c:response().body)
      local start = t.loop.now()
      assert.is_true(c:ended())
      local took = t.loop.now() - start
      assert.is_true(took > 0.05 and took < 1, took)
    end)
  end)

  it("may have been closed by the handler", function()
    serving.run(function(request)
      request.content:read(tonumber(request.path:sub(2)))
      request.content:close()
      return "closed"
    end, {}, function(t)
      local c = t.connect()
      c:send((sized("hello"):gsub("POST /", "POST /2")), (sized("hello"):gsub("POST /", "POST /5")))
      assert.equal("closed", c:response().body)
      assert.equal("closed", c:response().body)
      c:send((sized("x"):gsub("POST /", "POST /9")))
      assert.equal("closed", c:response().body)
    end)
  end)

  it("cannot be read after the answer", function()
    local kept
    serving.run(function(request) kept = request.content return "" end, {}, function(t)
      local c = t.connect()
      c:send(sized("hello"))
      c:response()
      assert.is_true(serving.eventually(function() return kept:status() == "closed" end))
      assert.equal("closed", (select(3, kept:read(1))))
    end)
  end)

  it("may be sent back", function()
    serving.run(function(request) return { body = request.body } end, {}, function(t)
      local c = t.connect()
      for _ = 1, 2 do
        c:send(sized("hello"))
        assert.equal("hello", c:response().body)
        c:send(post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"))
        assert.equal("hello", c:response().body)
      end
    end)
  end)
end)

describe("a handler that fails", function()
  it("gives 500 and a traceback to on_error, nothing of it to the client", function()
    serving.run(function(request)
      if request.path == "/alive" then return "" end
      local function secret_place() error("secret words") end
      secret_place()
    end, { may_fail = true }, function(t)
      local c = t.connect()
      c:send(get("/x"))
      local r = assert(c:response())
      assert.equal(500, r.status)
      assert.equal("Internal Server Error\n", r.body)
      for name, value in pairs(r.headers) do
        assert.is_nil((name .. tostring(value)):find("secret", 1, true))
      end
      assert.matches("secret words\nstack traceback:.*secret_place", t.failures[1].err)
      assert.equal("/x", t.failures[1].request.path)
      c:send(get("/alive"))
      assert.equal(200, c:response().status)
    end)
  end)

  it("may fail with any value", function()
    local values = { {}, setmetatable({}, { __tostring = function() return "mine" end }), 5, true, print }
    serving.run(function(request) error(values[tonumber(request.path:sub(2))]) end, { may_fail = true }, function(t)
      local c = t.connect()
      for i = 1, #values + 1 do
        c:send(get("/" .. i))
        assert.equal("Internal Server Error\n", c:response().body)
      end
      assert.equal(#values + 1, #t.failures)
      assert.equal(values[1], t.failures[1].err)
      assert.matches("^mine\nstack traceback", t.failures[2].trace)
    end)
  end)

  it("may say the status with an error table", function()
    serving.run(function(request)
      error { status = tonumber(request.path:sub(2)), message = "because" }
    end, { may_fail = true }, function(t)
      local c = t.connect()
      local wanted = {
        ["/404"] = "because\n", ["/503"] = "Service Unavailable\n", ["/200"] = "Internal Server Error\n",
      }
      for path, want in pairs(wanted) do
        c:send(get(path))
        local r = c:response()
        assert.equal(want, r.body)
        assert.equal(path == "/200" and 500 or tonumber(path:sub(2)), r.status)
      end
      assert.equal(2, #t.failures)
    end)
  end)

  it("survives an on_error that fails too", function()
    local stderr = io.stderr
    local said = {}
    io.stderr = { write = function(_, ...) said[#said + 1] = table.concat { ... } end } -- luacheck: ignore 122
    local opts = { on_error = function() error("two") end }
    local ok, err = pcall(serving.run, function() error("one") end, opts, function(t)
      local c = t.connect()
      c:send(get())
      assert.equal(500, c:response().status)
    end)
    io.stderr = stderr -- luacheck: ignore 122
    assert.is_true(ok, err)
    assert.matches("on_error failed.*two", said[1])
  end)

  local multipart_faults = {
    ["no-boundary"] = { "multipart/form-data", "x", 400 },
    ["bad-first-boundary"] = { "multipart/form-data; boundary=b", "x", 400 },
    ["missing-disposition"] = { "multipart/form-data; boundary=b", "--b\r\n\r\nx\r\n--b--\r\n", 400 },
    ["bad-header"] = { "multipart/form-data; boundary=b", "--b\r\nbad\r\n\r\nx\r\n--b--\r\n", 400 },
    ["unexpected-eof"] = { "multipart/form-data; boundary=b",
      '--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nabc', 400 },
  }
  for code, case in pairs(multipart_faults) do
    it("over parts answers their status: " .. code, function()
      serving.run(function(request)
        for part in request.parts do part.content:read("a") end
        return "fine"
      end, {}, function(t)
        local fields = ("Content-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n"):format(case[1], #case[2])
        local got = t.exchange(post(fields, case[2]))
        assert.equal(case[3], tonumber(got:match("^HTTP/1%.1 (%d+)")))
        assert.equal(1, t.server.stats().errors[code])
      end)
    end)
  end

  it("over a broken body answers that body's status, however it failed", function()
    serving.run(function(request)
      return request.body:read("a"):upper() -- nil when the body is bad
    end, {}, function(t)
      local got = t.exchange(post("Transfer-Encoding: chunked\r\n", "zz\r\n"))
      assert.matches("^HTTP/1%.1 400 ", got)
      assert.equal(1, t.server.stats().errors["bad-chunk-size"])
    end)
  end)

  it("while it makes the body: 500 before the first byte, the end of the connection after it", function()
    serving.run(function(request)
      local n = 0
      local function piece()
        n = n + 1
        if n == 2 or request.path:find("first") then error("no more") end
        return "piece"
      end
      if request.path:find("stream") then return { stream = function(write) while true do write(piece()) end end } end
      if request.path:find("source") then
        return { body = function()
          local ok, bytes = pcall(piece)
          if ok then return bytes end
          return nil, "no more"
        end }
      end
      return { body = piece }
    end, { may_fail = true }, function(t)
      for i, path in ipairs { "/first/stream", "/first/function", "/first/source" } do
        local c = t.connect()
        c:send(get(path))
        local r = assert(c:response())
        assert.equal(500, r.status, path)
        assert.equal("Internal Server Error\n", r.body)
        assert.matches("no more", t.failures[i].text)
        c:send(get("/first/stream"))
        assert.equal(500, c:response().status)
        table.remove(t.failures)
        c:close()
      end
      for i, path in ipairs { "/stream", "/function", "/source" } do
        local got = t.exchange(get(path))
        assert.matches("\r\n\r\n5\r\npiece\r\n$", got) -- no last chunk
        assert.matches("no more", t.failures[3 + i].text)
        local _, _, code = t.exchange("GET " .. path .. " HTTP/1.0\r\n\r\n")
        assert.equal("read-failed", code) -- the end would pass as the whole: reset
        table.remove(t.failures)
      end
      assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
    end)
  end)
end)

describe("upgrade", function()
  local function upgrading(request)
    if request.path ~= "/chat" then return "no" end
    return { status = 101, headers = { Upgrade = "chat" }, upgrade = function(r, w)
      while true do
        local line = r:read("l")
        if not line or line == "bye" then return end
        w:write("<" .. line .. ">\n")
        w:flush()
      end
    end }
  end

  it("hands Reader and Writer over, with the bytes that came already", function()
    serving.run(upgrading, {}, function(t)
      local c = t.connect()
      c:send(get("/chat", "Connection: Upgrade\r\nUpgrade: chat\r\n") .. "one\n")
      assert.equal("HTTP/1.1 101 Switching Protocols\r", c:read("l"))
      local head = ""
      repeat head = head .. c:read("L") until head:find("\r\n\r\n$")
      assert.matches("Connection: upgrade\r\n", head)
      assert.is_nil(head:find("Content-Length", 1, true))
      assert.is_nil(head:find("Transfer-Encoding", 1, true))
      assert.equal("<one>", c:read("l"))
      c:send("two\n")
      assert.equal("<two>", c:read("l"))
      c:send("bye\n")
      assert.is_true(c:ended())
    end)
  end)

  it("is refused to those who did not ask", function()
    for _, bytes in ipairs {
      get("/chat"), get("/chat", "Upgrade: chat\r\n"), get("/chat", "Connection: upgrade\r\n"),
      "GET /chat HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
    } do
      serving.run(upgrading, { may_fail = true }, function(t)
        local c = t.connect()
        c:send(bytes)
        assert.equal(500, c:response().status)
        assert.matches("did not ask", t.failures[1].text)
      end)
    end
  end)

  it("may be declined", function()
    assert.equal("no", answer(upgrading, get("/", "Connection: Upgrade\r\nUpgrade: chat\r\n")).body)
  end)

  it("makes a tunnel of CONNECT", function()
    serving.run(function() return { status = 200, upgrade = function(r, w) w:write(r:read("l")) w:flush() end } end, {},
      function(t)
        local c = t.connect()
        c:send("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nthrough\n")
        local got = c:rest()
        assert.matches("^HTTP/1%.1 200 OK\r\n.*\r\n\r\nthrough$", got)
        assert.is_nil(got:find("Content-Length", 1, true))
      end)
  end)

  it("reports a function that fails, and goes on", function()
    serving.run(function(request)
      return request.path == "/alive" and "" or { upgrade = function() error("broken") end }
    end, { may_fail = true }, function(t)
      local got = t.exchange(get("/", "Connection: Upgrade\r\nUpgrade: chat\r\n"))
      assert.matches("^HTTP/1%.1 101 ", got)
      assert.matches("broken", t.failures[1].text)
      assert.equal(200, t.alive())
    end)
  end)
end)

describe("where it listens", function()
  it("is a port that the system picks, or a Unix socket", function()
    serving.run(always "x", {}, function(t)
      assert.equal("127.0.0.1", t.server.host)
      assert.is_true(t.server.port > 0)
    end)
    if not transport.has_unix then return end
    local path = os.tmpname()
    os.remove(path)
    local function echo(request) return request.content and request.content:read("a") or "x" end
    serving.run(echo, { unix = path }, function(t)
      assert.equal(path, t.server.host)
      local c = t.connect()
      c:send(get(), sized("hello"))
      assert.equal("x", c:response().body)
      assert.equal("hello", c:response().body)
    end)
    assert.is_nil(io.open(path))
  end)

  it("is shared by reuseport", function()
    serving.run(always "x", { reuseport = true }, function(t)
      local same = { port = t.server.port, reuseport = true, loop = t.loop }
      local second = assert(partline.server.start(always "y", same))
      local seen = {}
      for _ = 1, 60 do
        local c = t.connect()
        c:send(get())
        seen[c:response().body] = true
        c:close()
      end
      second.close()
      assert.same({ x = true, y = true }, seen)
    end)
  end)

  it("tells why it cannot", function()
    serving.run(always "x", {}, function(t)
      local server, message, code = partline.server.start(always "y", { port = t.server.port })
      assert.is_nil(server)
      assert.matches("already in use", message)
      assert.equal("address-in-use", code)
    end)
    assert.has_error(function() partline.server.start(nil) end)
  end)
end)

describe("TLS", function()
  local found = pcall(require, "ssl")
  local dir

  setup(function()
    if not found then return end
    dir = os.tmpname()
    os.remove(dir)
    os.execute("mkdir " .. dir)
    local command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout %s/key -out %s/cert"
    assert(os.execute(command:format(dir, dir) .. " 2>/dev/null"))
  end)
  teardown(function() if dir then os.execute("rm -r " .. dir) end end)

  local function server_tls() return { key = dir .. "/key", certificate = dir .. "/cert" } end
  local CLIENT = { mode = "client", protocol = "any", verify = "none" }

  local function tls_it(name, f)
    it(name, function()
      if not found then return pending("LuaSec is not installed") end
      f()
    end)
  end

  tls_it("serves requests, uploads and downloads", function()
    local big = ("0123456789abcdef"):rep(256 * 1024) -- 4 MiB
    serving.run(function(request)
      return { body = request.content and request.content:read("a") or "hello" }
    end, { tls = server_tls() }, function(t)
      local c = t.connect({ tls = CLIENT })
      c:send(get())
      assert.equal("hello", c:response().body)
      t.loop.spawn(function() c:send(sized(big)) end)
      assert.is_true(c:response().body == big)
      c:send("GET / HTTP/2.0\r\n\r\n")
      assert.equal(505, c:response().status)
      assert.is_true(c:ended())
    end)
  end)

  tls_it("asks with 100-continue, cuts off slow handshakes, survives plain HTTP and resets", function()
    serving.run(function(request) return request.content and request.content:read("a") or "" end,
      { tls = server_tls(), head_timeout = 0.1 }, function(t)
        local c = t.connect({ tls = CLIENT })
        c:send(post("Expect: 100-continue\r\nContent-Length: 5\r\n"))
        assert.equal("HTTP/1.1 100 Continue\r\n\r\n", c:read(25))
        c:send("hello")
        assert.equal("hello", c:response().body)
        c:close()
        assert.is_true(t.connect():ended()) -- says nothing: cut off
        local plain = t.connect()
        plain:send(get())
        plain:rest()
        local gone = t.connect()
        gone:send("\22\3\1")
        gone:reset()
        assert.is_true(serving.eventually(function() return t.server.stats().connections == 0 end))
        assert.equal(1, t.server.stats().errors.timeout)
        assert.is_true(t.server.stats().errors["tls-failed"] >= 1)
        c = t.connect({ tls = CLIENT })
        c:send(get())
        assert.equal(200, c:response().status)
      end)
  end)

  tls_it("lets the answer to a head that was refused arrive when the server stops", function()
    serving.run(always "x", { tls = server_tls(), drain_timeout = 0.3 }, function(t)
      local c = t.connect({ tls = CLIENT })
      c:send("garbage\r\n\r\n")
      t.loop.sleep(0.02)
      t.loop.spawn(t.server.stop, 5)
      for _ = 1, 3 do -- it reads when it has sent all
        t.loop.sleep(0.02)
        assert.is_truthy(c:send("more of it"))
      end
      assert.matches("^HTTP/1%.1 400 ", c:rest())
    end)
  end)

  tls_it("is told when certificate or key are missing", function()
    local tls = { key = "/nowhere", certificate = "/nowhere" }
    local server, message, code = partline.server.start(always "x", { tls = tls })
    assert.is_nil(server)
    assert.is_string(message)
    assert.equal("tls-failed", code)
  end)
end)
