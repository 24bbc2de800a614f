-- What oom_test.c runs while memory fails: every constructor, method and failure of the C module. Each case must pass
-- when memory does not fail; run again after a failure in the same state, it must pass too.

local core, tool = ... -- tool: dir, pair() -> fd, fd; send(fd, s); shut(fd): the peer's end

local reader, head, multipart, text = core.reader, core.head, core.multipart, core.text
local writer, poll = core.writer, core.poll

-- nil, message, "no-memory" is as good as the error.
local function must(value, message, code, ...)
  if value == nil or value == false then
    assert(code == "no-memory", message)
    error("no-memory", 0)
  end
  return value, message, code, ...
end

local function is(want, got, message, code)
  if got == nil and (want ~= nil or message ~= nil) then must(nil, message, code) end
  if got ~= want then error(("%.60s, not %.60s"):format(tostring(got), tostring(want)), 2) end
end

local function fails(want, value, message, code)
  if code == "no-memory" then error("no-memory", 0) end
  assert(value == nil and type(message) == "string", "not a failure")
  if code ~= want then error(("%s, not %s: %s"):format(tostring(code), want, message), 2) end
end

local function raises(want, f, ...)
  local ok, e = pcall(f, ...)
  assert(not ok, "raises nothing")
  if type(e) == "string" then error(e, 0) end -- out of memory
  if e.code == "no-memory" then error("no-memory", 0) end
  assert(e.code == want and type(e.status) == "number" and tostring(e) == e.message)
end

-- An error for want of memory costs no byte: once more, and it must do.
local function again(f, ...)
  local ok, a, b, c, d, e, g = pcall(f, ...)
  if ok then return a, b, c, d, e, g end
  return f(...)
end

local function pieces(...)
  local list, i = { ... }, 0
  return reader["function"](function()
    i = i + 1
    return list[i]
  end)
end

-- A source that waits: in a coroutine, as a scheduler would run it.
local function slowly(s, size, f)
  local at = 1
  local r = reader["function"](function()
    coroutine.yield()
    local piece = at <= #s and s:sub(at, at + size - 1) or nil
    at = at + size -- not before, or a failure would cost a piece
    return piece
  end)
  local co = coroutine.create(f)
  local ok, e = coroutine.resume(co, r)
  while ok and coroutine.status(co) ~= "dead" do ok, e = coroutine.resume(co) end
  if not ok then error(e, 0) end
end

local long = ("0123456789abcdef"):rep(400)

local function file_with(bytes)
  local file = must(io.open(tool.dir .. "/in", "w+b"))
  file:write(bytes)
  file:seek("set", 0)
  return file
end

local function content_of(path)
  local file = must(io.open(path, "rb"))
  local bytes = file:read("a")
  file:close()
  return bytes
end

local chunked = "5;a=b;c=\"d\"\r\nhello\r\n7\r\n, world\r\n0\r\n"
  .. "X-One: 1\r\nx-one: 2\r\nSet-Cookie: a\r\nHost: no\r\n\r\n"

local form = table.concat({
  "preamble", "--b",
  "Content-Disposition: form-data; name=\"a%22\"; filename=\"x \\\"y\\\".txt\"; filename*=UTF-8''%e2%82%ac",
  "X-Fold: one", " two",
  "Content-Length: 3", "", "abc",
  "--b", "content-disposition: form-data; name=long", "", long,
  "--b", "Content-Disposition: form-data; name=c", "Transfer-Encoding: chunked", "", "3\r\nxyz\r\n0\r\n\r\n",
  "--b--", "epilogue",
}, "\r\n")

local request = "\r\nPOST /a?b=c HTTP/1.1\r\nHost: h\r\n"
  .. "Accept: a\r\naccept: b\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"
local response = "HTTP/1.1 200 Fine\r\n"
  .. "Set-Cookie: a\r\nset-cookie: b\r\nX: one\r\n two\r\nTransfer-Encoding: chunked\r\n\r\n"

local cases = {}

local function case(name, f) cases[#cases + 1] = { name, f } end

case("string", function()
  local r = reader.string(long .. "line\nlast\n\nrest")
  is(6415, r:length())
  is(long, again(r.read, r, #long))
  local a, b, c = r:read("l", "L", 0)
  assert(a == "line" and b == "last\n" and c == "")
  is("\nr", again(r.peek, r, 2))
  is("\nrest", again(r.read, r, "a"))
  is("", r:read("a"))
  is(nil, r:read(1))
  assert(reader.is(r) and not reader.is(1) and tostring(r):find("reader"))
  is("ended", (r:status()))
  r:close()
  fails("closed", r:read(1))
end)

case("function", function()
  local r = pieces("abc", "", 12, long, "x\ny")
  is("a", again(r.read_some, r, 1))
  is(0, r:at_hand() - 2)
  is("bc12" .. long, again(r.read, r, 4 + #long))
  is("x", r:read("l"))
  is("y", r:read("l"))
  is(nil, r:read("l"))
end)

case("big", function()
  local r = pieces(long, long, long)
  is(3 * #long, #must(again(r.read, r, "*a")))
  r = pieces(long, long)
  is(2 * #long, #must(again(r.read, r, "L")))
  r = pieces(long, long):limits { max_all = #long }
  fails("body-too-large", r:read("a"))
end)

case("coroutine", function()
  slowly("one\ntwo\nthree", 2, function(r)
    is("one", r:read("l"))
    is("two\n", again(r.read, r, "L"))
    is("th", r:read(2))
    for line in r:lines() do is("ree", line) end
  end)
end)

case("failing source", function()
  local r = reader["function"](function() return nil, "broken", "my-code" end)
  fails("my-code", r:read(1))
  raises("my-code", r:lines())
  fails("my-code", reader.limit(r, 5):read(1))
  r = reader["function"](function() return nil, setmetatable({}, { __tostring = function() return "object" end }) end)
  fails("source-failed", r:read(1))
  r = reader["function"](function() return nil, "late", "timeout" end)
  fails("timeout", r:read(1))
  r = reader["function"](function() return "" end)
  fails("no-progress", r:read(1))
end)

case("file", function()
  local file = file_with(long .. "\nend")
  local r = reader.file(file, -1)
  is(#long + 4, r:length())
  is(long, again(r.read, r, "l"))
  is("end", r:read("a"))
  file:seek("set", 1)
  r = reader.file(file, 3, true)
  is("123", r:read("a"))
  r:close()
  is("closed file", io.type(file))
end)

case("socket", function()
  local mine, peer = tool.pair()
  local waits = 0
  local r = reader.socket(nil, mine, function(_, mode)
    assert(mode == "r")
    waits = waits + 1
    if waits == 1 then tool.send(peer, "hello\nthere") return true end
    if waits == 2 then return nil, "too late", "timeout" end
    tool.shut(peer)
    return true
  end, 5)
  r:preload("early ")
  r:limits { timeout = 1, deadline = 1e9, max_all = 100 }
  r:patience(2)
  r:on_wait(function() return true end)
  is("early hello", again(r.read, r, "l"))
  is("there", r:read_some())
  fails("timeout", r:read(1))
  is(nil, r:read(1))
  r:idle()
  local closed
  r:on_close(function(ended) closed = ended end)
  r:close()
  assert(closed == true)
end)

case("limit", function()
  local r = reader.string(long)
  is("0123", again(reader.limit(r, 4, true).read, reader.limit(r, 4, true), "a"))
  is(#long - 4, reader.limit(r, 1000000):length())
  local l = reader.limit(r, 1000000, true)
  is(10, l:skip(10))
  fails("unexpected-eof", l:skip())
end)

case("chunked", function()
  local r = reader.chunked(reader.string(chunked), { lenient = true, trailer = 1000, chunk_line = 50, chunk_ext = 50 })
  is("hel", again(r.peek, r, 3))
  is("hello, world", again(r.read, r, "a"))
  local t = again(r.trailers, r)
  assert(t["X-ONE"] == "1, 2" and t["set-cookie"] == nil or t["set-cookie"][1] == "a")
  assert(t.Host == nil)
  slowly(chunked, 1, function(up)
    local c = reader.chunked(up)
    is("hello, world", c:read("a"))
    assert(c:trailers()["x-one"] == "1, 2")
  end)
  fails("bad-chunk-size", reader.chunked(reader.string("x\r\n")):read(1))
  fails("unexpected-eof", reader.chunked(reader.string("5\r\nhe")):read("a"))
end)

case("parts", function()
  local step, _, _, closer = multipart.parts(reader.string(form), "b", true, { parts = 5, part_fields = 10 })
  local part <const> = step()
  assert(part.name == "a\"" and part.filename == "x \"y\".txt" and part["filename*"] == "\u{20ac}" and part.length == 3)
  assert(part.headers["x-fold"] == "one two" and part.type == "form-data")
  is("abc", again(part.content.read, part.content, "a"))
  local second <const> = step()
  is("0123", second.content:read(4))
  local third <const> = step()
  fails("stale-part", second.content:read(1))
  is("xyz", third.content:read("a"))
  is(nil, step())
  getmetatable(closer).__close(closer)
  raises("closed", step)
end)

case("parts, slowly", function()
  slowly(form, 400, function(up)
    local names = {}
    for part in multipart.parts(up, "b", true) do
      names[#names + 1] = part.name
      if part.name == "long" then is(long, again(part.content.read, part.content, "a")) end
    end
    is("a\" long c", table.concat(names, " "))
  end)
end)

-- A part lost for want of memory is not passed over unseen.
case("parts, again", function()
  local step = multipart.parts(reader.string(form), "b", true)
  local ok, part = pcall(step)
  if not ok then ok, part = pcall(step) end
  if not ok then
    assert(part == "not enough memory" or part.code == "no-memory")
    error(part, 0)
  end
  is("a\"", part.name)
end)

case("parts, failing", function()
  raises("bad-first-boundary", (multipart.parts(reader.string("x"), "b", true)))
  raises("unexpected-eof", (multipart.parts(reader.string(""), "b", true)))
  raises("header-too-large", (multipart.parts(reader.string(form), "b", true, { part_fields = 1 })))
  raises("missing-name", (multipart.parts(reader.string("--b\r\nContent-Disposition: form-data\r\n\r\n"), "b", true)))
  local body = reader.string(form)
  local step = multipart.parts(body, "b", true, nil, true)
  body:read(1)
  raises("body-in-use", step)
  body:release()
end)

case("boundaries and dispositions", function()
  local b, is_form = multipart.boundary("multipart/form-data; boundary=\"a b\"")
  assert(b == "a b" and is_form)
  fails("no-boundary", multipart.boundary("multipart/mixed"))
  local d = multipart.disposition("attachment; filename=\"a\\\"b\"; filename*=iso-8859-1''%e9")
  assert(d.type == "attachment" and d.filename == "a\"b" and d["filename*"] == "\u{e9}")
  fails("bad-header", multipart.disposition("a\1"))
  fails("bad-disposition", multipart.disposition("form-data; name=\""))
end)

case("request", function()
  local p = head.new { head = 4096, fields = 10, target = 100 }
  local r = reader.string(request)
  local m, about = again(p.read, p, r, "request")
  assert(m.method == "POST" and m.target == "/a?b=c" and m.path == "/a" and m.query == "b=c")
  assert(m.protocol_version.minor == 1 and m.headers.ACCEPT == "a, b")
  assert(about.framing == "length" and m.length == 3 and about.keep_alive and about.expect == "continue")
  assert(not (about.upgrade or about.http10 or about.plain))
  r = reader.string(request .. request)
  m = p:read(r, "request")
  local names, values = head.order(m.headers)
  assert(names[2] == "Accept" and values[2] == "a" and values[3] == "b")
  is(3, r:skip(3))
  assert(p:read(r, "request").method == "POST")
  r:skip()
  is(nil, p:read(r, "request"))
  fails("unexpected-eof", p:read(reader.string("GET / HT"), "request"))
  fails("bad-host", p:read(reader.string("GET / HTTP/1.1\r\n\r\n"), "request"))
  fails("bad-version", p:read(reader.string("GET / HTTP/3.1\r\n\r\n"), "request"))
end)

case("response, slowly", function()
  slowly(response, 16, function(up)
    local p = head.new()
    local m, about = must(p:read(up, "response", "GET"))
    assert(m.status == 200 and m.reason_phrase == "Fine" and about.framing == "chunked")
    assert(m.headers["Set-Cookie"][2] == "b" and m.headers.x == "one two")
    is("one two", select(2, head.order(m.headers))[3])
  end)
end)

-- Two reads with one parser: the second has memory of its own.
case("two heads", function()
  local p = head.new()
  slowly(request, 5, function(up)
    local other = reader["function"](function()
      must(p:read(reader.string(request), "request"))
      return up:read_some()
    end)
    is("POST", must(p:read(other, "request")).method)
  end)
end)

case("fields", function()
  local h = head.wrap { ["Content-Type"] = "a" }
  is("a", h["content-type"])
  h["CONTENT-TYPE"] = "b"
  is("b", rawget(h, "Content-Type"))
  h.new = "c"
  is(nil, h.none)
  is(nil, head.order(h))
end)

case("writer", function()
  local got = {}
  local w = writer["function"](function(bytes)
    got[#got + 1] = bytes
    return true
  end)
  assert(writer.is(w) and tostring(w):find("writer"))
  is(w, w:write("a", 1, long, long, long, long))
  is(w, w:flush())
  is("a1" .. long, table.concat(got):sub(1, 2 + #long))
  is(2 + 4 * #long, (w:status()))
  must(w:write("gone")):discard()
  w:close()
  fails("closed", w:write("x"))
  w = writer["function"](function() return nil, "no", "timeout" end)
  w:write("x")
  fails("timeout", w:flush())
end)

case("socket writer", function()
  local mine, peer = tool.pair()
  local big = long:rep(200)
  local w = writer.socket(nil, mine, function(_, mode)
    assert(mode == "w")
    tool.drain(peer)
    return true
  end, 1)
  is(w, w:write("head", big))
  is(w, w:flush())
  is(w, w:send("a", 1, big))
  tool.shut(peer)
  fails("write-failed", w:write(big))
end)

case("serve", function()
  local mine, peer = tool.pair()
  local wait = function() return nil, "too late", "timeout" end
  local r, w = reader.socket(nil, mine, wait, 1), writer.socket(nil, mine, wait, 1)
  local answers = { "text", { status = 200, body = "table" }, { body = long }, { status = 204 } }
  local asked = 0
  local serve, lane = head.server(head.new(), true, function(req)
    asked = asked + 1
    if asked == 5 then error("no answer", 0) end
    return req.method == "GET" and answers[asked]
  end, function(err) return { value = err } end, { [200] = "HTTP/1.1 200 OK\r\n" })
  -- A failure for want of memory ends the connection.
  local function go(held, woken)
    local what, about, result, served, failed, method = serve(r, w, held, woken)
    if what == nil then must(what, about, result) end
    if failed and type(result) == "string" then error("no-memory", 0) end -- what was raised, or of the second handler
    return what, about, result, served, failed, method
  end
  local get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
  tool.send(peer, get:rep(4) .. get:sub(1, 9))
  local what, about, result, served, failed, method = go(nil, true)
  is("/", what.target)
  assert(about.plain and served and not failed and method == "GET")
  is(204, result.status)
  local held, pass
  what, held, pass, served = go(nil, false)
  assert(what == false and held ~= nil and not pass and not served)
  tool.send(peer, get:sub(10) .. "GET / HTTP/1.0\r\n\r\n")
  what, about, result, served, failed = go(held, true)
  assert(what.target == "/" and about.plain and served and failed)
  if result.value ~= "no answer" then error(result.value, 0) end
  what, about, result, served = go(nil, false)
  assert(what.target == "/" and not about.plain and about.http10 and result == nil and not served)
  is(5, lane:requests())
  tool.shut(peer)
  is(nil, (serve(r, w, nil, true)))
end)

case("ask", function()
  local mine, peer = tool.pair()
  local answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nok"
  local waits = 0
  local function wait(_, mode)
    waits = waits + 1
    if mode == "w" then tool.drain(peer) return true end
    if waits > 20 then return nil, "too late", "timeout" end
    tool.send(peer, answer)
    return true
  end
  local r, w, p = reader.socket(nil, mine, wait, 1), writer.socket(nil, mine, wait, 1), head.new()
  local function go(sent, method, most, eager)
    local m, about, body = p:ask(r, w, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", sent, method, 5, most, eager)
    if m == nil then must(m, about, body) end
    return m, about, body
  end
  local m, about, body = go(nil, "GET", 100, true)
  assert(m.status == 200 and about.framing == "length" and body == "ok")
  is("y", m.headers.x)
  tool.send(peer, answer)
  m, about, body = go("body", "POST", 1, true)
  assert(m.length == 2 and not about.plain and body == nil)
  is("ok", r:read(2))
  m, about, body = go(long:rep(200), "HEAD", 100, false)
  assert(m.status == 200 and about.framing == "none" and body == nil)
  is("ok", r:read(2))
  tool.shut(peer)
  fails("write-failed", p:ask(r, w, "GET", nil, nil, 5))
end)

case("copy", function()
  local out = {}
  local function sink(bytes) out[#out + 1] = bytes end
  is(5, reader.string("hello"):copy(sink))
  is(3, reader.string("hello"):copy(sink, 3))
  is(5, pieces("he", "llo"):copy({ write = function(_, bytes) sink(bytes) return true end }))
  is(5, pieces("he", "llo"):copy({ send = function(_, bytes) sink(bytes) return 1 end }))
  fails("write-failed", reader.string("x"):copy(function() return nil, "full" end))
  fails("disk", reader.string("x"):copy(function() return nil, "full", "disk" end))
  local w = writer["function"](function() return true end)
  is(3 * #long, pieces(long, long, long):copy(w))
  local file = must(io.open(tool.dir .. "/out", "wb"))
  is(2 * #long, pieces(long, long):copy(file))
  file:close()
  fails("write-failed", reader.string("x"):copy(file))
  is(2 * #long, #content_of(tool.dir .. "/out"))
  fails("my-code", reader["function"](function() return nil, "broken", "my-code" end):copy(sink))
end)

case("copy, slowly", function()
  slowly(long, 3000, function(up)
    local n = 0
    is(#long, up:copy(function(bytes)
      coroutine.yield()
      n = n + #bytes
      return true
    end))
    is(#long, n)
  end)
end)

-- All of the bytes, or no file.
case("save", function()
  local path = tool.dir .. "/saved"
  os.remove(path)
  local made, message, code = pieces(long, long):save(path)
  if made == nil then assert(not io.open(path)) end
  is(2 * #long, made, message, code)
  is(2 * #long, #content_of(path))
  os.remove(path)
  fails("my-code", reader["function"](function() return nil, "broken", "my-code" end):save(path))
  assert(not io.open(path))
  fails("write-failed", reader.string("x"):save(tool.dir .. "/none/x"))
end)

case("save, left in the middle", function()
  local r = reader["function"](coroutine.yield)
  local co = coroutine.create(r.save)
  must(coroutine.resume(co, r, tool.dir .. "/left"))
  must(coroutine.resume(co, "abc"))
  local other = coroutine.create(function() r:save(tool.dir .. "/closed") end)
  must(coroutine.resume(other))
  r:close()
end)

case("iterators", function()
  local n = 0
  for line in reader.string("a\nb\nc"):lines("L") do n = n + #line end
  is(5, n)
  for bytes in reader.string("abcde"):lines(2) do n = n + #bytes end
  is(10, n)
  for bytes in pieces("a", "b"):source() do n = n + #bytes end
  is(12, n)
  local r = reader.string("abc")
  r:close()
  raises("closed", r:lines())
  fails("closed", r:source()())
end)

case("text", function()
  assert(text.errors()["bad-header"].status == 400)
  raises("closed", text.raise, "message", "closed")
  is("ff\r\n", text.chunk_line(255))
  assert(text.is_token("a") and text.is_value("") and text.is_target("/") and text.is_trailer("x"))
end)

case("url", function()
  local u = core.url.split("http://user@[::1]:80/a%20b?c=d#e")
  assert(u.host and u.port == 80 and u.query == "c=d")
  is("a%20b", core.url.encode("a b", "path"))
  is("a b" .. long, core.url.decode("a+b" .. long, true))
  local list = core.url.pairs("a=1&b=%20&c")
  assert(#list == 3)
  is(32, #core.random.hex(16))
  is(16, #core.random.bytes(16))
end)

local function polled(backend)
  local mine, peer = tool.pair()
  local p <close> = must(poll.new(backend))
  local attached = must(poll.new(backend))
  local edge, message, code = attached:attach(mine)
  if edge == nil then must(edge, message, code) end
  must(p:want(mine, "r"))
  must(p:want(mine, "w"))
  tool.send(peer, "x")
  local events = {}
  is(1, p:wait(1, events))
  is(mine, events[1])
  local file = file_with("x") -- descriptors that cannot be polled are always ready; more of them than fit at first
  for fd = 3, 40 do p:want(fd, "r") end
  p:wait(0, events)
  p:detach(mine)
  is(p:backend(), backend or p:backend())
  assert(tostring(p):find("poller"))
  file:close()
  attached:close()
end

case("poll", function()
  polled()
  polled("poll")
  fails("not-available", poll.new("none"))
  fails("closed", poll.new():attach(1000000))
end)

local function collect(list)
  return function(piece) list[#list + 1] = piece or "end" end
end

case("push", function()
  local push, log = core.push, {}
  local p <close> = push.message("request", nil, nil, function(m) log[1] = m.headers.Accept end, nil, collect(log),
    function(t) log[#log + 1] = t["X-One"] end, function() log[#log + 1] = "done" end)
  local bytes = (request:gsub("Content%-Length: 3", "Transfer-Encoding: chunked"))
  bytes = bytes:match("^.-\r\n\r\n") .. "1;a=b\r\nx\r\n0\r\nX-One: 1\r\nX-One: 2\r\n\r\n"
  for i = 1, #bytes, 7 do must(p:feed(bytes, i, i + 6)) end
  is("a, b x 1, 2 done", table.concat(log, " "))
  must(p:feed("GET / HT"))
  fails("unexpected-eof", p:finish())
  fails("bad-status-line", push.message("response", { lower = true }):feed("HTTX"))
end)

case("push parts", function()
  local log = {}
  local p <close> = core.push.multipart("b", true, { parts = 5 }, function(name, _, meta, into)
    log[#log + 1] = name .. (meta["filename*"] or "")
    into(collect(log))
  end)
  for i = 1, #form, 5 do must(p:feed(form, i, i + 4)) end
  assert(must(p:finish()))
  is("a\"\u{20ac}", log[1])
  is("abc", (table.concat(log):match("abc")))
end)

case("parse", function()
  local push = core.push
  local m, i, about = push.parse_request(request)
  assert(m.path == "/a" and i == #request - 2 and about.framing == "length")
  for k, v in pairs(m) do assert(k and v) end
  assert(m["protocol-version"].minor == 1)
  is("incomplete", select(2, push.parse_request(request:sub(1, 20), 1, { max_head = 100, lower_names = true })))
  fails("bad-status-line", push.parse_response("HTTX"))
end)

return cases
