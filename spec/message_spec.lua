-- Requests and responses from a Reader. (Writing them: the writer's own spec.)

local message = require "partline.message"
local reader = require "partline.reader"
local check = require "spec.support.check"
local feed = require "spec.support.feed"
local sources = require "spec.support.sources"
local splits = require "spec.support.splits"

local fails, throws = check.fails, check.throws

local function request_of(bytes, limits) return message.read_request(reader.from_string(bytes), limits) end

local function response_of(bytes, asked, limits)
  return message.read_response(reader.from_string(bytes), asked, limits)
end

local function get(fields, limits) return request_of("GET / HTTP/1.1\r\nHost: a\r\n" .. fields .. "\r\n", limits) end

describe("read_request", function()
  it("gives the parts of the head", function()
    local r = request_of("POST /a/b?x=1?&y#z HTTP/1.1\r\nHost: a:80\r\nContent-Length: 4\r\n\r\nbody")
    assert.equal("POST", r.method)
    assert.equal("/a/b?x=1?&y#z", r.target)
    assert.equal("/a/b", r.path)
    assert.equal("x=1?&y#z", r.query)
    assert.same({ name = "HTTP", major = 1, minor = 1 }, r.protocol_version)
    assert.equal("a:80", r.headers.host)
    assert.equal(4, r.length)
    assert.equal(r.body, r.content)
    assert.equal("body", r.content:read("a"))
    assert.is_nil(r.parts)
  end)

  it("answers to kebab-case names", function()
    local r = get("")
    assert.equal(r.protocol_version, r["protocol-version"])
    assert.equal(1, r["protocol-version"].minor)
  end)

  it("tells no query from an empty one", function()
    local function query(target) return request_of("GET " .. target .. " HTTP/1.1\r\nHost: a\r\n\r\n").query end
    assert.is_nil(query("/x"))
    assert.equal("", query("/x?"))
    assert.equal("?", query("/x??"))
    assert.equal("/", request_of("GET /?a HTTP/1.1\r\nHost: a\r\n\r\n").path)
  end)

  it("gives targets of all four forms as sent", function()
    for target, method in pairs {
      ["/"] = "GET", ["/%41?a=b"] = "GET", ["http://h:1/p?q"] = "GET", ["*"] = "OPTIONS", ["h:443"] = "CONNECT",
    } do
      local r = request_of(("%s %s HTTP/1.1\r\nHost: a\r\n\r\n"):format(method, target))
      assert.equal(target, r.target)
    end
  end)

  it("gives no body where none is framed", function()
    for _, fields in ipairs { "", "Content-Type: text/plain\r\n", "Content-Type: multipart/mixed; boundary=b\r\n" } do
      local r = get(fields)
      assert.is_nil(r.body)
      assert.is_nil(r.content)
      assert.is_nil(r.parts)
      assert.is_nil(r.length)
    end
  end)

  it("gives an empty body for a length of 0", function()
    local r = get("Content-Length: 0\r\n")
    assert.equal(0, r.length)
    assert.equal("", r.content:read("a"))
  end)

  it("gives a chunked body without a length, and its trailers", function()
    local r = request_of("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" ..
      sources.chunked("content", 3, "Check: sum\r\n"))
    assert.is_nil(r.length)
    assert.is_nil(r.content:length())
    assert.equal("content", r.content:read("a"))
    assert.equal("sum", r.content:trailers().check)
  end)

  it("reads nothing of the body", function()
    local calls = 0
    local pieces = { "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", "0123456789" }
    local below = reader.from_function(function()
      calls = calls + 1
      return pieces[calls]
    end)
    local r = message.read_request(below)
    assert.equal(1, calls)
    assert.equal(10, #r.content)
    assert.equal("01", r.content:read(2))
    assert.equal(2, calls)
    assert.equal(8, #r.content)
    assert.equal("23456789", r.content:read("a"))
    assert.is_nil(r.content:read(1))
    assert.equal(2, calls)
  end)

  it("gives one request after the other", function()
    local r = reader.from_string(("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" ..
      "PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" ..
      "PUT /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):rep(2))
    local seen = {}
    for one in message.read_request, r do
      seen[#seen + 1] = one.target .. (one.content and one.content:read("a") or "")
      if #seen == 6 then break end
    end
    assert.equal("/1 /2abc /3abc /1 /2abc /3abc", table.concat(seen, " "))
    assert.same({ n = 1 }, table.pack(message.read_request(r)))
  end)

  it("gives nil alone at a clean end", function()
    for _, bytes in ipairs { "", "\r\n", "\r\n\r\n", "\r" } do
      assert.same({ n = 1 }, table.pack(request_of(bytes)))
    end
  end)

  it("fails when the head is cut off, wherever", function()
    local head = "GET /x HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"
    for n = 1, #head - 1 do fails("unexpected-eof", request_of(head:sub(1, n))) end
  end)

  it("tells the code and the offset of what it refuses", function()
    local text = fails("bad-header-name", get("X y: 1\r\n"))
    assert.is_truthy(text:find("byte 26", 1, true), text)
    fails("bad-host", request_of("GET / HTTP/1.1\r\n\r\n"))
    fails("te-and-cl", get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"))
    fails("bad-version", request_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"))
  end)

  it("needs no Host on HTTP/1.0", function()
    local r = request_of("GET / HTTP/1.0\r\n\r\n")
    assert.equal(0, r.protocol_version.minor)
    fails("bad-host", request_of("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"))
  end)

  it("may be asked at every cut", function()
    local bytes = "\r\nPOST /p?q HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: 1\r\nX: 2\r\n\r\nabcREST"
    splits(bytes, function(pieces, how)
      local r = feed.reader(pieces, true)
      local got = feed.request(r)
      assert.equal("abc", got.body, how)
      assert.same({ { "Host", "a" }, { "Content-Length", "3" }, { "X", "1" }, { "X", "2" } }, got.headers, how)
      assert.equal("REST", r:read("a"), how)
    end)
  end)

  it("costs no more where the bytes come one by one", function()
    local calls = 0
    local bytes = "GET / HTTP/1.1\r\nHost: a\r\nX: " .. ("x"):rep(10000) .. "\r\n\r\n"
    local r = message.read_request(reader.from_function(sources.pieces(bytes, 1, function() calls = calls + 1 end)))
    assert.equal(10000, #r.headers.x)
    assert.equal(#bytes, calls)
  end)
end)

describe("the limits of a head", function()
  local function with_target(n, limits)
    return request_of("GET /" .. ("t"):rep(n - 1) .. " HTTP/1.1\r\nHost: a\r\n\r\n", limits)
  end

  it("hold at the limit and fail one past it: target", function()
    assert.is_table(with_target(8192))
    fails("uri-too-long", with_target(8193))
    assert.is_table(with_target(10, { max_target = 10 }))
    fails("uri-too-long", with_target(11, { max_target = 10 }))
  end)

  it("hold at the limit and fail one past it: fields", function()
    local function with_fields(n, limits) return get(("X: y\r\n"):rep(n - 1), limits) end
    assert.is_table(with_fields(100))
    fails("header-too-large", with_fields(101))
    assert.is_table(with_fields(3, { max_fields = 3 }))
    fails("header-too-large", with_fields(4, { max_fields = 3 }))
  end)

  it("hold at the limit and fail one past it: bytes", function()
    local around = #"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
    local function with_bytes(n, limits) return get("X: " .. ("v"):rep(n - around) .. "\r\n", limits) end
    assert.is_table(with_bytes(16384))
    fails("header-too-large", with_bytes(16385))
    assert.is_table(with_bytes(60, { max_head = 60 }))
    fails("header-too-large", with_bytes(61, { max_head = 60 }))
  end)

  it("end an endless head", function()
    for _, piece in ipairs { "x", "X: y\r\n", "\r\n", "GET /", "\r", "\0" } do
      local calls = 0
      local value, _, code = message.read_request(reader.from_function(function()
        calls = calls + 1
        return piece
      end))
      assert.is_nil(value)
      assert.is_string(code)
      assert.is_true(calls <= 17000, ("%q: %d calls"):format(piece, calls))
    end
  end)

  it("are checked", function()
    local wrong = { { max_head = -1 }, { max_fields = "x" }, { ["max-target"] = 1.5 }, { max_fields = 1 << 40 } }
    for _, limits in ipairs(wrong) do
      check.raises("max_", function() message.read_request(reader.from_string(""), limits) end)
    end
    check.raises("table expected", function() message.read_request(reader.from_string(""), 5) end)
    assert.is_table(get("", { max_head = 100.0 }))
  end)

  it("of a body in memory hold for read('a') and lines, not for streams", function()
    local function body(limits)
      return request_of("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789", limits).content
    end
    local function chunked(limits)
      return request_of("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" ..
        sources.chunked("0123456789", 4), limits).content
    end
    for _, open in ipairs { body, chunked } do
      assert.equal("0123456789", open { max_body_in_memory = 10 }:read("a"))
      assert.equal(413, require("partline").errors[select(3, open { max_body_in_memory = 9 }:read("a"))].status)
      fails("body-too-large", open { max_body_in_memory = 9 }:read("a"))
      fails("body-too-large", open { ["max-body-in-memory"] = 8 }:read("l"))
      assert.equal(10, open { max_body_in_memory = 5 }:copy(function() end))
      assert.equal("0123456", open { max_body_in_memory = 5 }:read(7))
    end
  end)

  it("of a body in memory are 64 MiB, and a larger length is refused unread", function()
    local r = request_of("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108865\r\n\r\n")
    fails("body-too-large", r.content:read("a"))
    r = request_of("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n")
    fails("unexpected-eof", r.content:read("a"))
  end)
end)

describe("the second value of next_request", function()
  local function about(head)
    return select(2, message.next_request(reader.from_string(head), message.parser()))
  end

  it("tells whether the connection may be kept", function()
    for head, keep in pairs {
      ["GET / HTTP/1.1\r\nHost: a\r\n\r\n"] = true,
      ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] = false,
      ["GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n"] = false,
      ["GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n"] = false,
      ["GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n"] = true,
      ["GET / HTTP/1.0\r\n\r\n"] = false,
      ["GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"] = true,
      ["GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"] = false,
    } do
      assert.equal(keep, about(head).keep_alive, head)
    end
  end)

  it("tells what is expected", function()
    local function expect(fields)
      return about("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" .. fields .. "\r\n").expect
    end
    assert.is_nil(expect(""))
    assert.equal("continue", expect("Expect: 100-Continue\r\n"))
    assert.equal("other", expect("Expect: tea\r\n"))
    assert.is_nil(about("PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n").expect)
  end)

  it("tells whether an upgrade is asked for", function()
    assert.is_true(about("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").upgrade)
    assert.is_false(about("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n").upgrade)
    assert.is_false(about("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\r\n").upgrade)
  end)

  it("is the text of a failure, or nil at the end", function()
    fails("bad-request-line", message.next_request(reader.from_string("\1\r\n"), message.parser()))
    assert.is_nil(select(2, message.next_request(reader.from_string(""), message.parser())))
  end)
end)

describe("a request with parts", function()
  local FORM = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' ..
    '--b\r\nContent-Disposition: form-data; name="c"\r\n\r\n2\r\n--b--\r\n'

  local function post(content_type)
    return request_of(("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"):format(
      content_type or "multipart/form-data; boundary=b", #FORM, FORM))
  end

  local function names_by(iterate)
    local out = {}
    for part in iterate() do out[#out + 1] = part.name .. part.content:read("a") end
    return table.concat(out, " ")
  end

  it("has parts in place of content, and the raw body beside them", function()
    local r = post()
    assert.is_nil(r.content)
    assert.is_function(r.parts)
    assert.is_true(reader.is_reader(r.body))
    assert.equal(#FORM, r.length)
  end)

  it("iterates in all three ways", function()
    local r = post()
    assert.equal("a1 c2", names_by(function() return r.parts end))
    r = post()
    assert.equal("a1 c2", names_by(function() return r:parts() end))
    r = post()
    assert.equal("a", r.parts().name)
    assert.equal("2", r.parts().content:read("a"))
    assert.is_nil(r.parts())
    assert.is_nil(r.parts())
  end)

  it("gives the four values of a for loop when called as a method", function()
    local r = post()
    local step, state, first, closer = r:parts()
    assert.is_function(step)
    assert.is_nil(state)
    assert.is_nil(first)
    assert.is_userdata(closer)
    assert.equal("a", step().name)
  end)

  it("mixes the ways: the next part is the next part", function()
    local r = post()
    assert.equal("a", r.parts().name)
    for part in r:parts() do assert.equal("c", part.name) end
  end)

  it("reads nothing before it is asked", function()
    local calls = 0
    local pieces = { "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: "
      .. #FORM .. "\r\n\r\n", FORM:sub(1, 50), FORM:sub(51, 60), FORM:sub(61) }
    local r = message.read_request(reader.from_function(function()
      calls = calls + 1
      return pieces[calls]
    end))
    assert.equal(1, calls)
    r:parts()
    assert.equal(1, calls)
    assert.equal("a", r.parts().name)
    assert.is_true(calls <= 3)
    assert.equal("c", r.parts().name)
  end)

  it("belongs to whichever of parts and body is touched first", function()
    local r = post()
    assert.equal("a", r.parts().name)
    fails("body-in-use", r.body:read(1))
    fails("body-in-use", r.body:skip())
    fails("body-in-use", r.body:peek(1))
    fails("body-in-use", r.body:copy(function() end))
    throws("body-in-use", r.body:lines())
    assert.equal("c", r.parts().name)

    r = post()
    assert.equal("--b", r.body:read(3))
    throws("body-in-use", r.parts)
    throws("body-in-use", r.parts)
    assert.equal(FORM:sub(4), r.body:read("a"))
  end)

  it("is not claimed by looking at the length, nor by making the iterator", function()
    local r = post()
    assert.equal(#FORM, #r.body)
    r:parts()
    r.body:lines()
    assert.equal("open", (r.body:status()))
    assert.equal(FORM, r.body:read("a"))
  end)

  it("tells of a boundary it cannot use when the parts are asked for", function()
    for content_type, code in pairs {
      ["multipart/form-data"] = "no-boundary", ["multipart/form-data; boundary="] = "no-boundary",
      ["multipart/form-data; boundary=a; boundary=b"] = "duplicate-boundary",
      ["multipart/mixed; boundary=" .. ("x"):rep(71)] = "boundary-too-long",
      ['multipart/mixed; boundary="'] = "bad-content-type",
    } do
      local r = post(content_type)
      throws(code, function() for _ in r.parts do error("there is no part") end end)
      throws(code, function() for _ in r:parts() do error("there is no part") end end)
      throws(code, r.parts)
      assert.equal(FORM, r.body:read("a"))
    end
  end)

  it("knows multipart by any case", function()
    assert.is_function(post("MultiPart/Form-Data; Boundary=b").parts)
    assert.equal("a1 c2", names_by(post("Multipart/MIXED;\tboundary=\"b\"").parts and function()
      return post("Multipart/form-data;\tboundary=\"b\"").parts
    end))
    assert.is_nil(post("text/plain; x=multipart/form-data").parts)
    assert.is_nil(post("multipartx/form-data; boundary=b").parts)
  end)

  it("leaves what follows the body for the next request, also when not all parts were read", function()
    local below = reader.from_string((
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n" ..
      "Content-Length: %d\r\n\r\n%sGET /next HTTP/1.1\r\nHost: a\r\n\r\n"):format(#FORM, FORM))
    local r = message.read_request(below)
    assert.equal("a", r.parts().name)
    r.body:release() -- as the server does
    r.body:skip()
    assert.equal("/next", message.read_request(below).target)
  end)
end)

describe("read_response", function()
  it("gives the parts of the head", function()
    local r = response_of("HTTP/1.1 404 Not  Found\r\nContent-Length: 4\r\n\r\nbodyREST")
    assert.equal(404, r.status)
    assert.equal("integer", math.type(r.status))
    assert.equal("Not  Found", r.reason_phrase)
    assert.equal("Not  Found", r["reason-phrase"])
    assert.same({ name = "HTTP", major = 1, minor = 1 }, r.protocol_version)
    assert.equal(4, r.length)
    assert.equal("body", r.body:read("a"))
    assert.is_nil(r.content)
  end)

  it("has no body where there is none", function()
    for _, case in ipairs {
      { "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n" }, { "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n" },
      { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD" }, { "HTTP/1.1 200 OK\r\n\r\n", "CONNECT" },
      { "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" },
    } do
      local r = response_of(case[1], { method = case[2] })
      assert.is_nil(r.body, case[1])
    end
  end)

  it("reads to the close without a length", function()
    local r = response_of("HTTP/1.1 200 OK\r\n\r\nall of it")
    assert.is_nil(r.length)
    assert.equal("all of it", r.body:read("a"))
    r = response_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nzipped")
    assert.equal("zipped", r.body:read("a"))
  end)

  it("reads lines and all of any size: the limit is for requests", function()
    local r = response_of("HTTP/1.1 200 OK\r\n\r\n" .. ("x"):rep(100), nil, { max_body_in_memory = 10 })
    assert.equal(100, #r.body:read("a"))
  end)

  it("skips interim responses, and gives them to whoever asks", function()
    local bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
      .. "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert.equal(200, response_of(bytes).status)
    local seen = {}
    local r = message.next_response(reader.from_string(bytes), message.parser(), "GET", function(interim)
      seen[#seen + 1] = interim.status .. (interim.headers.link or "")
    end)
    assert.equal(200, r.status)
    assert.same({ "100", "103x" }, seen)
  end)

  it("stops at 101, behind which another protocol speaks", function()
    local below = reader.from_string("HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 bytes")
    local r, about = message.next_response(below, message.parser(), "GET")
    assert.equal(101, r.status)
    assert.is_true(about.upgrade)
    assert.equal("HTTP/1.1 bytes", below:read("a"))
  end)

  it("is kind about line ends, folds and reasons", function()
    local r = response_of("HTTP/1.0 200\nA: b\n c\nContent-Length: 1\n\nx")
    assert.equal("", r.reason_phrase)
    assert.equal("b c", r.headers.a)
    assert.equal("x", r.body:read("a"))
    assert.equal("", response_of("HTTP/1.1 200 \r\n\r\n").reason_phrase)
    r = response_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n")
    assert.equal("x", r.body:read("a"))
  end)

  it("is strict about framing", function()
    fails("te-and-cl", response_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"))
    fails("bad-content-length", response_of("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"))
    fails("conflicting-length", response_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"))
    fails("bad-status-line", response_of("HTTP/1.1 20 OK\r\n\r\n"))
    fails("bad-status-line", response_of("ICY 200 OK\r\n\r\n"))
    fails("bad-version", response_of("HTTP/2.0 200 OK\r\n\r\n"))
  end)

  it("gives nil alone at a clean end, and fails in a head that is cut off", function()
    assert.same({ n = 1 }, table.pack(response_of("")))
    fails("unexpected-eof", response_of("HTTP/1.1 200 OK\r\nA: b\r\n"))
    assert.same({ n = 1 }, table.pack(response_of("HTTP/1.1 100 Continue\r\n\r\n")))
  end)

  it("tells whether the connection may be kept", function()
    local function keep(bytes, method)
      return select(2, message.next_response(reader.from_string(bytes), message.parser(), method)).keep_alive
    end
    assert.is_true(keep("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    assert.is_true(keep("HTTP/1.1 304 No\r\n\r\n"))
    assert.is_true(keep("HTTP/1.1 200 OK\r\n\r\n", "HEAD"))
    assert.is_false(keep("HTTP/1.1 200 OK\r\n\r\n", "GET"))
    assert.is_false(keep("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
    assert.is_false(keep("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"))
  end)
end)

describe("wrong use", function()
  it("raises", function()
    for _, f in ipairs {
      function() message.read_request("GET / HTTP/1.1\r\n\r\n") end, function() message.read_request() end,
      function() message.read_response({}) end, function() message.next_request(reader.from_string("")) end,
    } do
      assert.is_false((pcall(f)))
    end
  end)

  it("is told at the caller's line", function()
    check.raises("partline.reader expected", function() message.read_request("GET / HTTP/1.1\r\n\r\n") end)
    check.raises("partline.reader expected", function() message.read_response(nil) end)
    check.raises("max_head", function() message.read_request(reader.from_string(""), { max_head = "x" }) end)
    check.raises("max_fields", function() message.read_response(reader.from_string(""), nil, { max_fields = -1 }) end)
  end)
end)
