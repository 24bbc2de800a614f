local check = require "spec.support.check"
local feed = require "spec.support.feed"
local parser = require "partline.parser"
local push = require "spec.support.push"
local splits = require "spec.support.splits"

local REQUEST = "GET /a?b HTTP/1.1\r\nHost: h\r\nX: 1\r\n\r\n"
local SIZED = "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello world"
local CHUNKED = "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
  .. "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\nHost: no\r\n\r\n"
local RESPONSE = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
local FORM = "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"one\"\r\n\r\nfirst\r\n-\r\n--b  \r\n"
  .. "Content-Disposition: form-data; name=two; filename=\"x.txt\"; filename*=utf-8''%e2%82%ac\r\n"
  .. "Content-Length: 6\r\n\r\nsecond\r\n--b\r\nContent-Disposition: form-data; name=three\r\n"
  .. "Transfer-Encoding: chunked\r\n\r\n5\r\nthird\r\n0\r\nT: 1\r\n\r\n\r\n--b--\r\nepilogue"
local FORM_TYPE = "multipart/form-data; boundary=b"

-- Callbacks that note what they are told: pieces that follow each other are one event.
local function recorder(names, answer)
  local events, on = {}, {}
  for _, name in ipairs(names) do
    on["on_" .. name] = function(x, ...)
      local what = name
      if name == "head" or name == "interim" then what = ("%s %s"):format(name, x.method or x.status) end
      if name == "trailers" then what = ("%s %s"):format(name, feed.fields(x)[1][1]) end
      local last = events[#events]
      if name == "body" and last and last:find("^body ") then
        events[#events] = last .. x
      else
        events[#events + 1] = name == "body" and "body " .. x or what
      end
      if answer then return answer(name, x, ...) end
    end
  end
  return on, events
end

local MESSAGE = { "head", "interim", "body", "trailers", "finish" }
local OF_REQUEST = { "head", "body", "trailers", "finish" }

-- A multipart parser of which every event is noted, sinks included.
local function form_parser(events, answer)
  local function note(text, ...)
    local last = events[#events]
    if text:find("^body ") and last and last:find("^body ") then events[#events] = last .. text:sub(6)
    else events[#events + 1] = text end
    if answer then return answer(...) end
  end
  return parser.multipart(FORM_TYPE, {
    on_part = function(name, _, _, into)
      into(function(piece) return note(piece and "body " .. piece or "end", piece and "body" or "end") end)
      return note("part " .. name, "part")
    end,
    on_finish = function() return note("finish", "finish") end,
  })
end

local FORM_EVENTS = {
  "part one", "body first\r\n-", "end", "part two", "body second", "end", "part three", "body third", "end", "finish",
}

-- Feeds all of `bytes` as whoever honours pauses and message ends does; `budget` steps at most.
local function feed_on(p, bytes)
  local i, budget = 1, #bytes + 100
  repeat
    local n = assert(p:feed(bytes, i))
    i, budget = i + n, budget - 1
    assert(budget > 0, "no progress")
  until i > #bytes
end

local function finish_on(p)
  for _ = 1, 20 do
    local ok = assert.is_boolean(p:finish()) and p:finish()
    if ok then return end
  end
  error("never finished")
end

local KINDS = {
  { "a request", REQUEST, function(answer)
    local on, events = recorder(OF_REQUEST, answer)
    return parser.request(on), events
  end, { "head GET", "finish" } },
  { "a request with a length", SIZED, function(answer)
    local on, events = recorder(OF_REQUEST, answer)
    return parser.request(on), events
  end, { "head POST", "body hello world", "finish" } },
  { "a chunked request", CHUNKED, function(answer)
    local on, events = recorder(OF_REQUEST, answer)
    return parser.request(on), events
  end, { "head PUT", "body hello world", "trailers X-Sum", "finish" } },
  { "a response behind an interim one", RESPONSE, function(answer)
    local on, events = recorder(MESSAGE, answer)
    return parser.response(on), events
  end, { "interim 100", "head 200", "body hello", "finish" } },
  { "a form", FORM, function(answer)
    local events = {}
    return form_parser(events, answer), events
  end, FORM_EVENTS },
}

for _, kind in ipairs(KINDS) do
  local title, bytes, new, want = table.unpack(kind)

  describe("events of " .. title, function()
    it("are the same however it is cut", function()
      splits(bytes, function(pieces, how)
        local p, events = new()
        for _, piece in ipairs(pieces) do assert.equal(#piece, p:feed(piece), how) end
        assert.same(want, events, how)
        assert.is_true(p:finish(), how)
      end)
    end)

    it("are neither lost nor repeated when every callback pauses", function()
      splits(bytes, function(pieces, how)
        local p, events = new(function() return "pause" end)
        for _, piece in ipairs(pieces) do
          if #piece > 0 then feed_on(p, piece) end
        end
        for _ = 1, 10 do assert.equal(0, p:feed("")) end -- what was due when the last byte was used
        finish_on(p)
        assert.same(want, events, how)
      end)
    end)

    it("stop at a pause", function()
      local seen = 0
      local p = new(function()
        seen = seen + 1
        return "pause"
      end)
      local i, calls = 1, 0
      while calls < 40 do
        calls = calls + 1
        local before = seen
        i = i + assert(p:feed(bytes, i))
        assert.is_true(seen <= before + 1, "two events in one feed")
      end
      assert.is_true(seen >= #want)
    end)

    it("may yield, each and every one", function()
      splits(bytes, function(pieces, how)
        local yields = 0
        local p, events = new(function(...)
          yields = yields + 1
          assert.equal(yields, coroutine.yield("waiting"))
          return ...
        end)
        local task = coroutine.wrap(function()
          for _, piece in ipairs(pieces) do assert.equal(#piece, p:feed(piece)) end
          assert.is_true(p:finish())
          return "done"
        end)
        local got = task()
        while got == "waiting" do got = task(yields) end
        assert.equal("done", got)
        assert.same(want, events, how)
        assert.is_true(yields >= #want)
      end, { limit = 64, edge = 8, stride = 7 })
    end)

    it("end with a close in any of them", function()
      for stop = 1, #want do
        local p, events, seen
        p, events = new(function()
          seen = (seen or 0) + 1
          if seen == stop then
            assert.is_true(p:close())
            assert.is_true(p:close())
          end
        end)
        local used = p:feed(bytes)
        assert.is_true(used > 0 and used <= #bytes)
        assert.equal(stop, seen)
        assert.is_true(#events <= stop)
        check.fails("closed", p:feed(bytes))
        check.fails("closed", p:finish())
      end
    end)

    it("pass their errors on, whatever they are, and end there", function()
      for stop = 1, #want do
        local thrown = stop % 2 == 0 and { stop } or "plain " .. stop
        local seen = 0
        local p = new(function()
          seen = seen + 1
          if seen == stop then error(thrown, 0) end
        end)
        local ok, err = pcall(p.feed, p, bytes)
        assert.is_false(ok)
        assert.equal(thrown, err)
        for _, f in ipairs { p.feed, p.finish } do
          local again, why = pcall(f, p, "")
          assert.is_false(again)
          assert.is_truthy(why:find("has not returned", 1, true))
        end
        assert.equal(stop, seen)
        assert.is_true(p:close())
      end
    end)

    it("may be refused: nil or false, a message, a code", function()
      for stop = 1, #want do
        for _, answers in ipairs { { nil, "no room", "too-big" }, { false, "no room" }, { nil, setmetatable({}, {
          __tostring = function() return "no room" end }) } } do
          local seen = 0
          local p = new(function()
            seen = seen + 1
            if seen == stop then return table.unpack(answers, 1, 3) end
          end)
          for _ = 1, 2 do
            assert.same({ n = 3, nil, "no room", answers[3] or "write-failed" }, table.pack(p:feed(bytes)))
          end
          assert.same({ n = 3, nil, "no room", answers[3] or "write-failed" }, table.pack(p:finish()))
          assert.equal(stop, seen)
        end
      end
    end)

    it("take other answers for nothing", function()
      for _, answer in ipairs { true, false, "paused", 1, "", {} } do
        local p, events = new(function() return answer end)
        assert.equal(#bytes, p:feed(bytes))
        assert.same(want, events)
      end
    end)

    it("cannot feed their own parser, or from another coroutine meanwhile", function()
      local p, events, seen
      p, events = new(function()
        seen = (seen or 0) + 1
        for _, f in ipairs { p.feed, p.finish } do
          local ok, why = pcall(f, p, "x")
          assert.is_false(ok)
          assert.is_truthy(why:find("has not returned", 1, true))
        end
        coroutine.yield()
      end)
      local task = coroutine.create(function() return p:feed(bytes) end)
      assert.is_true(coroutine.resume(task))
      assert.is_false((pcall(p.feed, p, bytes)))
      local ok, used
      while coroutine.status(task) ~= "dead" do ok, used = coroutine.resume(task) end
      assert.is_true(ok)
      assert.equal(#bytes, used)
      assert.same(want, events)
    end)

    it("are missing nobody when there is no callback", function()
      local p = bytes == FORM and parser.multipart(FORM_TYPE, {})
        or (bytes == RESPONSE and parser.response or parser.request) {}
      splits(bytes, function(pieces)
        if bytes == FORM then p = parser.multipart(FORM_TYPE, {}) end
        for _, piece in ipairs(pieces) do assert.equal(#piece, p:feed(piece)) end
        assert.is_true(p:finish())
      end)
    end)

    it("are those before it when the input ends too early", function()
      local last = bytes == FORM and bytes:find("epilogue", 1, true) - 3 or #bytes
      for n = 1, last - 1 do
        local p, events = new()
        assert.equal(n, p:feed(bytes:sub(1, n)))
        local response = bytes == RESPONSE and n == 25 -- between the two
        if response then
          assert.is_true(p:finish())
        else
          local code = bytes == FORM and n < 14 and select(3, p:finish()) or "unexpected-eof"
          assert.is_truthy(code == "unexpected-eof" or code == "bad-first-boundary", code)
          check.fails(code, p:finish())
          check.fails(code, p:feed(bytes))
        end
        for i, event in ipairs(events) do
          assert.equal(want[i]:sub(1, #event), event)
        end
        assert.not_equal("finish", events[#events])
      end
    end)
  end)
end

describe("pipelined messages", function()
  local three = REQUEST .. CHUNKED .. "\r\n" .. SIZED

  it("are left: feed stops behind each", function()
    local on, events = recorder(OF_REQUEST)
    local p = parser.request(on)
    assert.equal(#REQUEST, p:feed(three))
    assert.same({ "head GET", "finish" }, events)
    assert.equal(#CHUNKED, p:feed(three, #REQUEST + 1))
    assert.equal(2 + #SIZED, p:feed(three, #REQUEST + #CHUNKED + 1))
    assert.equal("finish", events[#events])
    assert.is_true(p:finish())
    assert.is_true(p:finish())
  end)

  it("come one by one at every cut", function()
    local want = {
      "head GET", "finish", "head PUT", "body hello world", "trailers X-Sum", "finish", "head POST",
      "body hello world", "finish",
    }
    splits(three, function(pieces, how)
      local on, events = recorder(OF_REQUEST)
      local p = parser.request(on)
      for _, piece in ipairs(pieces) do
        if #piece > 0 then feed_on(p, piece) end
      end
      assert.same(want, events, how)
      assert.is_true(p:finish())
    end)
  end)

  it("may follow a finish", function()
    local on, events = recorder(OF_REQUEST)
    local p = parser.request(on)
    for _ = 1, 2 do
      assert.equal(#REQUEST, p:feed(REQUEST))
      assert.is_true(p:finish())
    end
    assert.same({ "head GET", "finish", "head GET", "finish" }, events)
  end)

  it("do not end in a lone CR: that is no message", function()
    local p = parser.request {}
    assert.equal(#REQUEST, p:feed(REQUEST))
    assert.equal(3, p:feed("\r\n\r"))
    assert.is_true(p:finish())
    assert.equal(#REQUEST, p:feed(REQUEST))
  end)
end)

describe("feed", function()
  it("takes i and j as string.sub does", function()
    for _, range in ipairs { {}, { 1 }, { 1, -1 }, { -5 }, { -500, 500 }, { 3, 4 }, { 4, 3 }, { 0 }, { 500 }, { 5, -3 },
      { 1, 0 }, { -3, -2 }, { math.mininteger, math.maxinteger }, { math.maxinteger } } do
      local got = {}
      local p = parser.response { on_body = function(piece) got[#got + 1] = piece end }
      p:feed("HTTP/1.1 200 OK\r\n\r\n")
      local want = ("0123456789"):sub(range[1] or 1, range[2])
      assert.equal(#want, p:feed("0123456789", table.unpack(range)))
      assert.equal(want, table.concat(got))
    end
  end)

  it("raises for what is no string or no parser", function()
    local p = parser.request {}
    assert.has_error(function() p:feed() end)
    assert.has_error(function() p:feed({}) end)
    assert.has_error(function() p:feed("", "x") end)
    assert.has_error(function() p.feed({}, "") end)
    assert.equal(0, p:feed(""))
  end)

  it("gives one piece for what was fed", function()
    local pieces = {}
    local p = parser.request { on_body = function(piece) pieces[#pieces + 1] = piece end }
    p:feed("POST / HTTP/1.0\r\nContent-Length: 100000\r\n\r\n")
    local block = ("x"):rep(50000)
    assert.equal(50000, p:feed(block))
    assert.equal(50000, p:feed(block))
    assert.same({ block, block }, pieces)
  end)

  it("fails for ever once it has", function()
    local p = parser.request {}
    local text = check.fails("bad-request-line", p:feed("\0"))
    for _ = 1, 3 do
      assert.equal(text, check.fails("bad-request-line", p:feed(REQUEST)))
      assert.equal(text, check.fails("bad-request-line", p:finish()))
    end
    assert.is_truthy(tostring(p):find("^parser %(request, failed%)"))
  end)
end)

describe("on_head", function()
  it("has the message and what else the head says", function()
    local got
    local p = parser.request { on_head = function(request, about) got = { request, about } end }
    p:feed(SIZED)
    local request, about = table.unpack(got)
    assert.same({ "POST", "/up", "/up", 11, "h" },
      { request.method, request.target, request.path, request.length, request.headers.host })
    assert.equal(1, request["protocol-version"].minor)
    assert.same({ framing = "length", keep_alive = true, upgrade = false, http10 = false, coded = false,
      plain = false }, about)
    p:feed("GET /x?y HTTP/1.1\r\nHost: h\r\nUpgrade: u\r\nConnection: upgrade, close\r\nExpect: 100-continue\r\n\r\n")
    assert.same({ framing = "none", keep_alive = false, upgrade = true, expect = "continue", http10 = false,
      coded = false, plain = false }, got[2])
    assert.equal("y", got[1].query)
    p = parser.request { on_head = function(_, said) got = said end }
    p:feed("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert.is_true(got.plain)
    for _, special in ipairs { "GET / HTTP/1.0\r\nHost: h", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close",
      "GET / HTTP/1.1\r\nHost: h\r\nExpect: x", "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x",
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0" } do
      parser.request({ on_head = function(_, said) got = said end }):feed(special .. "\r\n\r\n")
      assert.is_false(got.plain, special)
    end
    parser.request({ on_head = function(_, said) got = said end }):feed(
      "POST / HTTP/1.0\r\nContent-Length: 1\r\nContent-Encoding: gzip\r\n\r\n")
    assert.is_true(got.http10 and got.coded)
  end)

  it("tells what else the head says in a table that the server does not use", function()
    local message, reader = require "partline.message", require "partline.reader"
    local bytes = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    local _, _, about = parser.parse_request(bytes)
    about.keep_alive, about.framing = false, "chunked"
    local request, said = message.next_request(reader.from_string(bytes), message.parser())
    about.keep_alive, about.framing = true, "none"
    assert.is_true(said.keep_alive)
    assert.is_nil(request.body)
  end)

  it("has names in lower case when asked for", function()
    for _, name in ipairs { "lower_names", "lower-names", "lower-names?" } do
      local fields, trailers
      local p = parser.response({
        on_head = function(response) fields = response.headers end,
        on_trailers = function(t) trailers = t end,
      }, { [name] = true })
      p:feed("HTTP/1.1 200 OK\r\nX-One: 1\r\nSET-Cookie: a\r\nx-ONE: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        .. "0\r\nX-Sum: S\r\n\r\n")
      local plain = {}
      for key, value in pairs(fields) do plain[key] = value end
      assert.same({ ["x-one"] = "1, 2", ["set-cookie"] = { "a" }, ["transfer-encoding"] = "chunked" }, plain)
      assert.equal("S", rawget(trailers, "x-sum"))
      assert.same({ "x-one", "1" }, feed.fields(fields)[1])
    end
  end)

  it("keeps names as received otherwise", function()
    local fields
    local p = parser.request { on_head = function(request) fields = request.headers end }
    p:feed("GET / HTTP/1.1\r\nhOsT: a\r\nX-Y: 1\r\n\r\n")
    assert.same({ { "hOsT", "a" }, { "X-Y", "1" } }, feed.fields(fields))
  end)
end)

describe("responses", function()
  local function run(bytes, opts, method)
    local on, events = recorder(MESSAGE)
    local p = parser.response(on, opts)
    if method then p:method(method) end
    return p:feed(bytes), events, p
  end

  it("to HEAD have no body", function()
    local head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    for _, args in ipairs { { { method = "HEAD" } }, { nil, "HEAD" }, { { method = "GET" }, "HEAD" } } do
      local used, events = run(head .. "hello", table.unpack(args, 1, 2))
      assert.equal(#head, used)
      assert.same({ "head 200", "finish" }, events)
    end
  end)

  it("may answer one method after the other", function()
    local on, events = recorder(MESSAGE)
    local p = parser.response(on)
    local head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert.equal(#head, p:method("HEAD"):feed(head))
    assert.equal(#head + 2, p:method("GET"):feed(head .. "ab"))
    assert.equal(#head + 2, p:method(nil):feed(head .. "cd"))
    assert.same({ "head 200", "finish", "head 200", "body ab", "finish", "head 200", "body cd", "finish" }, events)
  end)

  it("to CONNECT, and 101, end what can be read", function()
    for _, case in ipairs {
      { "HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" },
      { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", { method = "CONNECT" } },
    } do
      local used, events, p = run(case[1] .. "\0\1\2", case[2])
      assert.equal(#case[1], used)
      assert.equal("finish", events[2])
      assert.equal(0, p:feed(""))
      check.fails("upgraded", p:feed("\0"))
      check.fails("upgraded", p:feed("\0"))
      assert.is_true(p:finish())
      assert.equal(2, #events)
    end
    assert.equal("head 404", select(2, run("HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", { method = "CONNECT" }))[1])
  end)

  it("without a length end with the input", function()
    local head = "HTTP/1.1 200 OK\r\n\r\n"
    local used, events, p = run(head .. "some")
    assert.equal(#head + 4, used)
    assert.equal(5, p:feed(" more"))
    assert.is_true(p:finish())
    assert.same({ "head 200", "body some more", "finish" }, events)
  end)

  it("may pause at the very end", function()
    local on, events = recorder(MESSAGE, function(name) return name == "finish" and "pause" or nil end)
    local p = parser.response(on)
    p:feed("HTTP/1.1 200 OK\r\n\r\nx")
    assert.is_false(p:finish())
    assert.is_true(p:finish())
    assert.same({ "head 200", "body x", "finish" }, events)
  end)

  it("skip interim ones that nobody asks for", function()
    local on, events = recorder { "head", "body", "finish" }
    local p = parser.response(on)
    assert.equal(#RESPONSE, p:feed(RESPONSE))
    assert.same({ "head 200", "body hello", "finish" }, events)
  end)
end)

describe("requests with Upgrade", function()
  it("stop like all others: what follows is the server's choice", function()
    local head = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    local on, events = recorder(OF_REQUEST)
    local p = parser.request(on)
    assert.equal(#head, p:feed(head .. "\0\1"))
    assert.same({ "head GET", "finish" }, events)
    assert.equal(#REQUEST, p:feed(REQUEST)) -- it stayed with HTTP
  end)
end)

-- ---- limits: what passes at the limit, and what one more gives ----

describe("limits", function()
  local function at(bytes_of, code, name, n, kind)
    for _, less in ipairs { 0, 1 } do
      local how = ("%s = %d"):format(name, n - less)
      splits(bytes_of, function(pieces, cut)
        local p = kind({ [name] = n - less })
        local failed
        for _, piece in ipairs(pieces) do
          local got, _, why = p:feed(piece)
          failed = failed or not got and why
        end
        if less == 0 then assert.is_true(not failed and p:finish() == true, how .. " " .. cut) end
        if less == 1 then assert.equal(code, failed, how .. " " .. cut) end
      end)
    end
  end
  local function request(opts) return parser.request({}, opts) end
  local function form(opts) return parser.multipart(FORM_TYPE, {}, opts) end

  it("of a head's bytes, fields and target", function()
    at(REQUEST, "header-too-large", "max_head", #REQUEST, request)
    at(REQUEST, "header-too-large", "max_fields", 2, request)
    at(REQUEST, "uri-too-long", "max_target", 4, request)
    at(REQUEST, "uri-too-long", "max-target", 4, request)
  end)

  it("of a body", function()
    at(SIZED, "body-too-large", "max_body", 11, request)
    at(CHUNKED, "body-too-large", "max_body", 11, request)
    local function response(opts) return parser.response({}, opts) end
    at("HTTP/1.1 200 OK\r\n\r\nhello", "body-too-large", "max_body", 5, response)
  end)

  it("of a body's declared length: no head is told", function()
    local on, events = recorder(OF_REQUEST)
    check.fails("body-too-large", parser.request(on, { max_body = 10 }):feed(SIZED))
    assert.same({}, events)
  end)

  it("of chunk lines, extensions and trailers", function()
    at(CHUNKED, "chunk-ext-too-large", "max_chunk_line", 5, request)
    at(CHUNKED, "chunk-ext-too-large", "max_chunk_ext", 4, request)
    at(CHUNKED, "trailer-too-large", "max_trailer", #"X-Sum: 1\r\nHost: no\r\n\r\n", request)
  end)

  it("of parts", function()
    at(FORM, "too-many-parts", "max_parts", 3, form)
    at(FORM, "header-too-large", "max_part_fields", 2, form)
    local longest = "Content-Disposition: form-data; name=two; filename=\"x.txt\"; filename*=utf-8''%e2%82%ac\r\n"
      .. "Content-Length: 6\r\n\r\n"
    at(FORM, "header-too-large", "max_part_head", #longest, form)
    at(FORM, "chunk-ext-too-large", "max_chunk_line", 5, function(opts)
      opts.max_chunk_line = opts.max_chunk_line - 5 + 1 -- the longest line of its chunked part is "5"
      return opts.max_chunk_line > 0 and form(opts) or {
        feed = function() return nil, "", "chunk-ext-too-large" end, finish = function() return true end }
    end)
  end)

  it("of a boundary", function()
    assert.is_userdata(parser.multipart("multipart/mixed; boundary=12345", {}, { max_boundary = 5 }))
    check.fails("boundary-too-long", parser.multipart("multipart/mixed; boundary=123456", {}, { max_boundary = 5 }))
  end)

  it("are finite by default", function()
    local long = ("x"):rep(16 * 1024)
    check.fails("header-too-large", parser.request({}):feed("GET / HTTP/1.1\r\nX: " .. long))
    check.fails("uri-too-long", parser.request({}):feed("GET /" .. long))
    check.fails("header-too-large", parser.request({}):feed("GET / HTTP/1.1\r\n" .. ("a: b\r\n"):rep(101)))
    local head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    check.fails("chunk-ext-too-large", parser.request({}):feed(head .. "1;" .. long))
    check.fails("trailer-too-large", parser.request({}):feed(head .. "0\r\nX: " .. long))
    check.fails("trailer-too-large", parser.request({}):feed(head .. "0\r\n" .. ("a: b\r\n"):rep(101)))
    check.fails("too-many-parts", parser.multipart("multipart/mixed; boundary=b", {})
      :feed(("--b\r\n\r\n\r\n"):rep(1001)))
  end)
end)

describe("memory", function()
  local function kib()
    collectgarbage()
    collectgarbage()
    return collectgarbage("count")
  end

  it("does not grow with the body", function()
    local block = ("0123456789abcdef"):rep(4096)
    local cases = {
      { parser.request {}, "POST / HTTP/1.0\r\nContent-Length: 100000000\r\n\r\n" },
      { parser.response {}, "HTTP/1.1 200 OK\r\n\r\n" },
      { parser.request {}, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000\r\n" },
      { parser.multipart(FORM_TYPE, {}), "--b\r\nContent-Disposition: form-data; name=x\r\n\r\n" },
      { parser.multipart(FORM_TYPE, {}), "" }, -- all preamble
      { parser.multipart(FORM_TYPE, {}), "--b--" }, -- all epilogue
    }
    for _, case in ipairs(cases) do
      local p, start = table.unpack(case)
      assert.equal(#start, p:feed(start))
      assert.equal(#block, p:feed(block))
      local before = kib()
      for _ = 1, 200 do assert.equal(#block, p:feed(block)) end
      assert.is_true(kib() - before < 4, "grew")
    end
  end)

  it("is given back by close and by the collector", function()
    local before = kib()
    for i = 1, 200 do
      local p = parser.request {}
      p:feed("GET / HTTP/1.1\r\nX: " .. ("y"):rep(10000))
      if i % 2 == 0 then p:close() end
    end
    assert.is_true(kib() - before < 64)
  end)

  it("is given back by <close>, also when a callback raises", function()
    local kept
    pcall(function()
      local p <close> = parser.request { on_head = function() error("no") end }
      kept = p
      p:feed("GET / HTTP/1.1\r\nHo")
      p:feed("st: a\r\n\r\n")
    end)
    assert.is_truthy(tostring(kept):find("closed", 1, true))
  end)
end)

describe("parser.multipart", function()
  it("tells of each part", function()
    local parts = {}
    local p = parser.multipart(FORM_TYPE, function(name, headers, meta, into)
      parts[#parts + 1] = { name, headers["content-disposition"] ~= nil, meta, type(into) }
    end)
    assert.equal(#FORM, p:feed(FORM))
    assert.same({
      { "one", true, { name = "one", type = "form-data" }, "function" },
      { "two", true, { name = "two", type = "form-data", filename = "x.txt", ["filename*"] = "\u{20ac}", length = 6 },
        "function" },
      { "three", true, { name = "three", type = "form-data" }, "function" },
    }, parts)
  end)

  it("writes into objects: write, and finish if they have it", function()
    local log = {}
    local class = { __index = {
      write = function(self, piece) log[#log + 1] = self.name .. ":" .. piece end,
      finish = function(self) log[#log + 1] = self.name .. " finished" end,
    } }
    local p = parser.multipart(FORM_TYPE, function(name, _, _, into)
      if name == "one" then into(setmetatable({ name = name }, class)) end
      if name == "two" then into { write = function(_, piece) log[#log + 1] = piece end } end
    end)
    p:feed(FORM)
    assert.same({ "one:first\r\n-", "one finished", "second" }, log)
  end)

  it("writes into files, and tells when that fails", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    local p = parser.multipart(FORM_TYPE, function(name, _, _, into)
      if name == "one" then into(file) end
    end)
    assert.equal(#FORM, p:feed(FORM))
    file:close()
    file = io.open(path)
    assert.equal("first\r\n-", file:read("a"))
    p = parser.multipart(FORM_TYPE, function(_, _, _, into) into(file) end) -- open for reading
    check.fails("write-failed", p:feed(FORM))
    file:close()
    os.remove(path)
  end)

  it("takes a sink that comes late, or again", function()
    local log, late = {}, nil
    local p = parser.multipart(FORM_TYPE, function(_, _, _, into) late = late or into end)
    local at = FORM:find("first", 1, true)
    p:feed(FORM, 1, at + 1)
    late(function(piece) log[#log + 1] = piece or "end" end)
    p:feed(FORM, at + 2)
    assert.same({ "rst\r\n-", "end" }, log)
  end)

  it("raises for what is no sink", function()
    for _, bad in ipairs { 1, "x", true, {} } do
      local p = parser.multipart(FORM_TYPE, function(_, _, _, into) into(bad) end)
      local ok, err = pcall(p.feed, p, FORM)
      assert.is_false(ok)
      assert.is_truthy(tostring(err):find("function or object with write expected", 1, true))
    end
  end)

  it("returns what is wrong with the content type", function()
    check.fails("no-boundary", parser.multipart("multipart/form-data", print))
    check.fails("bad-content-type", parser.multipart("text/plain; boundary=b", print))
  end)

  it("refuses a chunked part that is cut off", function()
    local head = "--b\r\nContent-Disposition: form-data; name=x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _, body in ipairs { "", "5\r\nab", "2\r\nab\r\n", "0\r\n" } do
      splits(head .. body .. "\r\n--b--", function(pieces, how)
        local p = parser.multipart(FORM_TYPE, {})
        local code
        for _, piece in ipairs(pieces) do code = select(3, p:feed(piece)) end
        assert.equal("unexpected-eof", code, how)
      end)
    end
    local p = parser.multipart(FORM_TYPE, {})
    check.fails("bad-chunk-size", p:feed(head .. "x\r\n"))
  end)

  it("drops what follows a part's last chunk", function()
    local body = "--b\r\nContent-Disposition: form-data; name=x\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "1\r\na\r\n0\r\n\r\nrest of it\r\n--b--"
    splits(body, function(pieces, how)
      local got = {}
      local p = parser.multipart(FORM_TYPE, function(_, _, _, into)
        into(function(piece) got[#got + 1] = piece or "end" end)
      end)
      for _, piece in ipairs(pieces) do assert.equal(#piece, p:feed(piece)) end
      assert.same({ "a", "end" }, got, how)
    end)
  end)
end)

describe("wrong use", function()
  it("raises at the caller's line", function()
    check.raises("callbacks: table expected, got nil", function() parser.request() end)
    check.raises("on_head must be a function", function() parser.request { on_head = 1 } end)
    check.raises("on_body must be a function", function() parser.response { ["on-body"] = "x" } end)
    check.raises("no such callback: on_interim", function() parser.request { on_interim = print } end)
    check.raises("no such callback: on_heads", function() parser.response { on_heads = print } end)
    check.raises("max_head must be a non-negative integer", function() parser.request({}, { max_head = -1 }) end)
    check.raises("max_body must be a non-negative integer", function() parser.request({}, { max_body = 0.5 }) end)
    check.raises("method must be a string", function() parser.response({}, { method = 1 }) end)
    check.raises("content type must be a string", function() parser.multipart(nil, print) end)
    check.raises("on_part must be a function", function() parser.multipart(FORM_TYPE, { on_part = 1 }) end)
    check.raises("callbacks: table expected, got nil", function() parser.multipart(FORM_TYPE) end)
  end)

  it("takes callbacks in kebab-case", function()
    local heads = 0
    local p = parser.request { ["on-head"] = function() heads = heads + 1 end }
    p:feed(REQUEST)
    assert.equal(1, heads)
  end)
end)

-- ---- heads all at once ----

describe("parse_request", function()
  it("gives the request, what follows, and what else the head says", function()
    local request, next_one, about = parser.parse_request(SIZED)
    assert.equal("POST", request.method)
    assert.equal(SIZED:find("hello", 1, true), next_one)
    assert.same({ framing = "length", keep_alive = true, upgrade = false, http10 = false, coded = false,
      plain = false }, about)
    assert.same({ { "Host", "h" }, { "Content-Length", "11" } }, feed.fields(request.headers))
    assert.equal(11, request.length)
  end)

  it("begins at i", function()
    local two = "xx" .. REQUEST .. REQUEST
    local request, i = parser.parse_request(two, 3)
    assert.equal("/a?b", request.target)
    assert.equal(3 + #REQUEST, i)
    request, i = parser.parse_request(two, i)
    assert.equal("b", request.query)
    assert.equal(#two + 1, i)
    assert.same({ n = 2, nil, "incomplete" }, table.pack(parser.parse_request(two, i)))
  end)

  it("is incomplete until the last byte", function()
    for n = 0, #REQUEST - 1 do
      assert.same({ n = 2, nil, "incomplete" }, table.pack(parser.parse_request(REQUEST:sub(1, n))))
    end
  end)

  it("refuses as all others do", function()
    check.fails("bad-host", parser.parse_request("GET / HTTP/1.1\r\n\r\n"))
    check.fails("bad-header-name", parser.parse_request("GET / HTTP/1.1\r\n:\r\n\r\n"))
    check.fails("te-and-cl", parser.parse_request(
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"))
  end)

  it("takes limits, one past them fails", function()
    for name, at in pairs { max_head = { #REQUEST, "header-too-large" }, max_fields = { 2, "header-too-large" },
      max_target = { 4, "uri-too-long" }, ["max-target"] = { 4, "uri-too-long" } } do
      assert.is_table(parser.parse_request(REQUEST, 1, { [name] = at[1] }))
      check.fails(at[2], parser.parse_request(REQUEST, 1, { [name] = at[1] - 1 }))
    end
    local many = "GET / HTTP/1.0\r\n" .. ("a: b\r\n"):rep(101) .. "\r\n"
    check.fails("header-too-large", parser.parse_request(many))
    assert.equal(("b, "):rep(100) .. "b", parser.parse_request(many, 1, { max_fields = 101 }).headers.A)
  end)

  it("lowers names", function()
    local request = parser.parse_request(REQUEST, 1, { lower_names = true })
    assert.equal("h", rawget(request.headers, "host"))
    assert.is_nil(rawget(request.headers, "Host"))
    assert.equal("h", rawget(parser.parse_request(REQUEST).headers, "Host"))
    assert.equal("h", rawget(parser.parse_request(REQUEST, 1, { ["lower-names"] = true }).headers, "host"))
  end)

  it("raises for wrong arguments", function()
    assert.has_error(function() parser.parse_request() end)
    assert.has_error(function() parser.parse_request({}) end)
    assert.has_error(function() parser.parse_request("x", 0) end)
    assert.has_error(function() parser.parse_request("x", 3) end)
    assert.has_error(function() parser.parse_request("x", 1, 5) end)
    assert.has_error(function() parser.parse_request("x", 1, { max_head = "y" }) end)
    assert.has_error(function() parser.parse_request("x", 1, { max_fields = -1 }) end)
  end)
end)

describe("parse_response", function()
  it("gives the response, interim ones too", function()
    local response, i = parser.parse_response(RESPONSE)
    assert.equal(100, response.status)
    response, i = parser.parse_response(RESPONSE, i)
    assert.equal(200, response.status)
    assert.equal("OK", response.reason_phrase)
    assert.equal(5, response.length)
    assert.equal(RESPONSE:find("hello", 1, true), i)
  end)

  it("knows what it answers", function()
    local bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert.equal("length", select(3, parser.parse_response(bytes)).framing)
    assert.equal("none", select(3, parser.parse_response(bytes, 1, { method = "HEAD" })).framing)
    assert.is_true(select(3, parser.parse_response(bytes, 1, { method = "CONNECT" })).upgrade)
  end)
end)

-- ---- push and pull ----

describe("cases.json", function()
  local cases = require("spec.support.json").load("spec/data/cases.json")

  local both = {
    request = { feed.request, push.request },
    response = { function(r, case) return feed.response(r, case.context and case.context.request_method) end,
      function(pieces, case) return push.response(pieces, case.eof, case.context and case.context.request_method) end },
    ["chunked-body"] = { feed.chunked, push.chunked },
    ["multipart-body"] = { function(r, case) return feed.multipart(r, case.content_type) end,
      function(pieces, case) return push.multipart(pieces, case.eof, case.content_type) end },
  }
  both.request[1], both.request[2] = function(r) return feed.request(r) end,
    function(pieces, case) return push.request(pieces, case.eof) end
  both["chunked-body"][1], both["chunked-body"][2] = function(r) return feed.chunked(r) end,
    function(pieces, case) return push.chunked(pieces, case.eof) end

  for _, case in ipairs(cases) do
    local pull_and_push = both[case.kind]
    if pull_and_push and case.expected.result ~= "bounded" then
      it(("%s: %s"):format(case.id, case.title), function()
        local bytes = case.input or splits.generate(case.generate)
        local pull, push_it = table.unpack(pull_and_push)
        local want = push.plain(pull(feed.reader({ bytes }, case.eof), case))
        if case.kind == "multipart-body" then want.used = nil end
        local function compare(pieces, how)
          assert.same(want, push_it(pieces, case), how)
        end
        for pieces, how in splits.pieces_of(bytes, case.feed) do compare(pieces, how) end
        if #bytes <= 2048 then splits(bytes, compare) end
      end)
    end
  end
end)
