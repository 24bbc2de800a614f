-- partline.build: multipart bodies, and the strict writers of heads. The cases of kind "build" come from cases.json.

local build = require "partline.build"
local core = require "partline.core"
local json = require "spec.support.json"
local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"

local function bytes_of(built)
  local bytes = assert(built.reader:read("a"))
  if built.length then assert.equal(built.length, #bytes) end
  return bytes
end

-- What was built, taken apart again.
local function parts_of(built)
  local out = {}
  for part in multipart.parse(bytes_of(built), built.content_type) do
    local content = part.content:read("a")
    out[#out + 1] = {
      name = part.name, filename = part.filename, extended = part["filename*"], content = content,
      mime = part.headers["Content-Type"],
    }
  end
  return out
end

local function written(f, ...)
  local out = {}
  local ok, text, code = f(function(bytes) out[#out + 1] = bytes return true end, ...)
  return table.concat(out), ok, text, code
end

-- ---- cases.json ----

local function fields(list)
  local out = {}
  for i, pair in ipairs(list or {}) do out[i] = { pair[1], pair[2] } end
  return out
end

local run = {}

function run.multipart(what, want)
  local parts = {}
  for i, part in ipairs(what.parts) do
    parts[i] = { name = part.name, filename = part.filename and part.filename,
      content = part.body }
  end
  if what.times then -- boundaries that nobody can guess
    local seen = {}
    for _ = 1, what.times do
      local boundary = build.multipart(parts).boundary
      assert.is_nil(seen[boundary])
      seen[boundary] = true
      assert.is_true(#boundary <= 70)
      assert.is_truthy(boundary:find("^[%w'_.-]+$"))
      assert.is_truthy(boundary:find("%x" .. ("%x"):rep(31) .. "$"), "128 random bits")
    end
    return nil
  end
  local bytes = bytes_of(assert(build.multipart(parts, { boundary = what.boundary })))
  if want.bytes then assert.equal(want.bytes, bytes) end
  return bytes
end

function run.chunked(what, want)
  local i = 0
  local bytes = written(message.write_request, {
    method = "POST", target = "/",
    body = function()
      i = i + 1
      return what.writes[i] and what.writes[i]
    end,
  })
  assert.equal(want.bytes, bytes:match("\r\n\r\n(.*)$"))
end

local function response_of(head)
  return { status = head.status, reason_phrase = head.reason, headers = fields(head.headers), body = head.body }
end

run["head-each-must-fail"] = function(what, want)
  for _, head in ipairs(what.heads) do
    local bytes, ok, _, code = written(message.write_response, response_of(head))
    assert.is_nil(ok)
    assert.equal(want.error, code)
    assert.equal("", bytes)
  end
end

run["head-each"] = function(what)
  local all = {}
  for _, head in ipairs(what.heads) do
    local bytes, ok = written(message.write_response, response_of(head))
    assert.is_not_nil(ok)
    all[#all + 1] = bytes
  end
  return table.concat(all)
end

run["request-each-must-fail"] = function(what, want)
  for _, request in ipairs(what.requests) do
    local bytes, ok, _, code = written(message.write_request, request)
    assert.is_nil(ok)
    assert.equal(want.error, code)
    assert.equal("", bytes)
  end
end

describe("cases.json, build", function()
  for _, case in ipairs(json.load("spec/data/cases.json")) do
    if case.kind == "build" then
      it(case.id .. ": " .. case.title, function()
        local want = case.expected
        local bytes = run[case.build.what](case.build, want)
        for _, piece in ipairs(want.contains or {}) do
          assert.is_truthy(bytes:find(piece, 1, true), piece)
        end
        for _, piece in ipairs(want.not_contains or {}) do
          assert.is_nil(bytes:find(piece, 1, true), piece)
        end
      end)
    end
  end
end)

-- ---- multipart ----

describe("multipart.build", function()
  it("is partline.build's", function()
    local built = multipart.build({ { name = "a", content = "1" } }, { boundary = "B" })
    assert.equal("multipart/form-data; boundary=B", built.content_type)
    assert.equal('--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B--\r\n', built.reader:read("a"))
    assert.equal(59, built.length)
    assert.equal(built.content_type, built["content-type"])
  end)

  it("knows the length of strings, numbers, files and Readers that know theirs", function()
    local built = build.multipart {
      { name = "string", content = ("x"):rep(100000) },
      { name = "number", content = 42 },
      { name = "file", content = io.open("Makefile", "rb"), filename = "Makefile", mime_type = "text/plain" },
      { name = "reader", content = reader.from_string("abc") },
      { name = "bounded", content = reader.limit(reader.from_string("abcdef"), 4) },
      { name = "told", content = function() return "four" end, length = 4 },
    }
    assert.is_number(built.length)
    local parts = parts_of(built)
    assert.same({ name = "string", content = ("x"):rep(100000) }, parts[1])
    assert.equal("42", parts[2].content)
    assert.equal(io.open("Makefile", "rb"):read("a"), parts[3].content)
    assert.equal("text/plain", parts[3].mime)
    assert.same({ "abc", "abcd", "four" }, { parts[4].content, parts[5].content, parts[6].content })
  end)

  it("has no length when a part has none", function()
    local n = 0
    local built = build.multipart {
      { name = "f", content = function() n = n + 1 return n < 4 and "piece" .. n or nil end },
      { name = "pipe", content = io.popen("echo hello") },
      { name = "object", content = { read = function(self) self.n = (self.n or 0) + 1 return self.n < 3 and "o"
        or nil end } },
    }
    assert.is_nil(built.length)
    assert.is_nil(built.again)
    local parts = parts_of(built)
    assert.equal("piece1piece2piece3", parts[1].content)
    assert.equal("hello\n", parts[2].content)
    assert.equal("oo", parts[3].content)
  end)

  it("reads nothing before it is read, and only what is asked for", function()
    local asked = 0
    local built = build.multipart {
      { name = "a", content = function() asked = asked + 1 return ("x"):rep(1000) end, length = 100000 },
    }
    assert.equal(0, asked)
    built.reader:read(5000)
    assert.is_true(asked <= 6)
  end)

  it("takes a file from where it stands, and can do so again", function()
    local file = io.open("Makefile", "rb")
    file:seek("set", 10)
    local built = build.multipart({ { name = "a", content = "1" }, { name = "f", content = file } }, { boundary = "B" })
    local once = built.reader:read("a")
    assert.equal(built.length, #once)
    assert.equal(once, built.again():read("a"))
  end)

  it("tells when a part is shorter than its length, and takes no more than it", function()
    local built = build.multipart { { name = "a", content = reader.from_string("abc"), length = 5 } }
    local bytes, _, code = built.reader:read("a")
    assert.is_nil(bytes)
    assert.equal("unexpected-eof", code)
    built = build.multipart { { name = "a", content = reader.from_string("abcdef"), length = 2 } }
    assert.equal("ab", parts_of(built)[1].content)
  end)

  it("passes on the failure of a source", function()
    local built = build.multipart { { name = "a", content = function() return nil, "disk on fire", "burnt" end } }
    local bytes, text, code = built.reader:read("a")
    assert.is_nil(bytes)
    assert.equal("disk on fire", text)
    assert.equal("burnt", code)
  end)

  it("may yield in its sources", function()
    local built = build.multipart { { name = "a", content = function() return coroutine.yield("wait") end,
      length = 3 } }
    local co = coroutine.wrap(function() return built.reader:read("a") end)
    assert.equal("wait", co())
    assert.is_truthy(co("abc"):find("abc", 1, true))
  end)

  it("escapes names as browsers do, and nothing else", function()
    local bytes = bytes_of(build.multipart { { name = 'a"b\r\nc\\d%22é', filename = "ü\n.txt", content = "" } })
    assert.is_truthy(bytes:find('name="a%22b%0D%0Ac\\d%22é"; filename="ü%0A.txt"', 1, true))
    assert.is_nil(bytes:find("filename*", 1, true))
  end)

  it("sends filename* when it is asked for (RFC 8187)", function()
    local built = build.multipart { { name = "a", filename = "e.txt", ["filename*"] = "é 'x'.txt", content = "1" } }
    local bytes = built.again():read("a")
    assert.is_truthy(bytes:find("filename=\"e.txt\"; filename*=UTF-8''%C3%A9%20%27x%27.txt", 1, true))
    assert.equal("é 'x'.txt", parts_of(built)[1].extended)
  end)

  it("gives files a type, fields none, and takes headers of the program's", function()
    local bytes = bytes_of(build.multipart({
      { name = "a", content = "1", headers = { ["X-B"] = "2", ["X-A"] = 1, ["X-C"] = { "3", "4" } } },
      { name = "f", filename = "", content = "" },
      { name = "g", filename = "g", content = "", headers = { ["content-type"] = "text/x",
        ["Content-Disposition"] = "file" } },
      { name = "h", content = "", ["mime-type"] = "text/h", headers = { { "B", "1" }, { "A", "2" } } },
    }, { boundary = "B" }))
    assert.equal(table.concat({
      '--B', 'Content-Disposition: form-data; name="a"', "X-A: 1", "X-B: 2", "X-C: 3", "X-C: 4", "", "1",
      '--B', 'Content-Disposition: form-data; name="f"; filename=""', "Content-Type: application/octet-stream", "", "",
      "--B", "Content-Disposition: file", "content-type: text/x", "", "",
      "--B", 'Content-Disposition: form-data; name="h"', "Content-Type: text/h", "B: 1", "A: 2", "", "",
      "--B--", "",
    }, "\r\n"), bytes)
  end)

  it("builds mixed and related bodies, whose parts need no names", function()
    local mixed = build.multipart({ { content = "a" }, { content = "b", filename = "b.bin" } }, { subtype = "mixed",
      boundary = "B" })
    assert.equal("multipart/mixed; boundary=B", mixed.content_type)
    assert.equal("--B\r\n\r\na\r\n--B\r\nContent-Disposition: attachment; filename=\"b.bin\"\r\n" ..
      "Content-Type: application/octet-stream\r\n\r\nb\r\n--B--\r\n", bytes_of(mixed))
    local related = build.multipart({
      { content = "<p>", mime_type = "text/html" },
      { content = "png", mime_type = "image/png", headers = { ["Content-ID"] = "<1>" } },
    }, { subtype = "related", boundary = "B" })
    assert.equal('multipart/related; type="text/html"; boundary=B', related.content_type)
  end)

  it("nests", function()
    local built = build.multipart {
      { name = "files", multipart = { { content = "1", filename = "a" }, { content = "2", filename = "b" } } },
      { name = "built", content = multipart.build({ { name = "x", content = "y" } }, { boundary = "inner" }) },
    }
    assert.is_number(built.length)
    local parts = parts_of(built)
    local inner = {}
    for part in multipart.parse(parts[1].content, parts[1].mime) do inner[#inner + 1] = part.filename
      .. part.content:read("a") end
    assert.same({ "a1", "b2" }, inner)
    assert.equal("multipart/form-data; boundary=inner", parts[2].mime)
    assert.equal('--inner\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n--inner--\r\n', parts[2].content)
  end)

  it("quotes a boundary that is no token", function()
    local built = build.multipart({ { name = "a", content = "1" } }, { boundary = "a b:c" })
    assert.equal('multipart/form-data; boundary="a b:c"', built.content_type)
    assert.equal("1", parts_of(built)[1].content)
  end)

  local refused = {
    { "invalid-header-value", { { name = "a\0", content = "" } } },
    { "invalid-header-value", { { name = "a", content = "", mime_type = "text/x\r\nX: 1" } } },
    { "invalid-header-value", { { name = "a", content = "", headers = { ["X\r\nY"] = "1" } } } },
    { "invalid-header-value", { { name = "a", content = "", headers = { X = "1\n2" } } } },
    { "invalid-header-value", { { name = "a", content = "", headers = { X = "1\0" } } } },
    { "invalid-header-value", { { name = "a", content = "", headers = { ["Transfer-Encoding"] = "chunked" } } } },
    { "invalid-header-value", {}, { subtype = "x y" } },
    { "invalid-header-value", {}, { type = "x\ry" } },
    { "invalid-boundary", {}, { boundary = "" } },
    { "invalid-boundary", {}, { boundary = "a " } },
    { "invalid-boundary", {}, { boundary = "a\r\nb" } },
    { "invalid-boundary", {}, { boundary = 'a"' } },
    { "boundary-too-long", {}, { boundary = ("b"):rep(71) } },
    { "invalid-boundary", { { name = "a", content = "x\r\n--B\r\n" } }, { boundary = "B" } },
    { "invalid-boundary", { { name = "a", content = "--B--" } }, { boundary = "B" } },
  }

  it("refuses what would break the body", function()
    for i, case in ipairs(refused) do
      local built, text, code = build.multipart(case[2], case[3])
      assert.is_nil(built, i)
      assert.is_string(text)
      assert.equal(case[1], code, i)
    end
  end)

  it("raises when it is used wrongly", function()
    assert.has_error(function() build.multipart("x") end)
    assert.has_error(function() build.multipart { "x" } end)
    assert.has_error(function() build.multipart { { content = "x" } } end)
    assert.has_error(function() build.multipart { { name = "x" } } end)
    assert.has_error(function() build.multipart { { name = "x", content = true } } end)
    assert.has_error(function() build.multipart({}, { boundary = 1 }) end)
  end)

  it("is an LTN12 source of its bytes, and takes LTN12 sources as content", function()
    local pieces = { "ab", "", "cd" }
    local i = 0
    local function ltn12_source()
      i = i + 1
      return pieces[i]
    end
    local built = build.multipart({ { name = "a", content = ltn12_source } }, { boundary = "B" })
    local out = {}
    local source = built.reader:source()
    while true do
      local piece = source()
      if not piece then break end
      out[#out + 1] = piece
    end
    assert.equal('--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nabcd\r\n--B--\r\n', table.concat(out))
  end)

  it("writes itself as its Reader gives it, and can be the body of a message", function()
    local file = io.open("Makefile", "rb")
    local built = build.multipart({
      { name = "a", content = "1" }, { name = "f", content = file }, { name = "r",
        content = reader.from_string("abc") },
      { name = "l", content = function() return ("x"):rep(100) end, length = 150 },
    }, { boundary = "B" })
    local bytes, ok = written(message.write_request, { method = "PUT", target = "/", body = built })
    assert.is_truthy(ok)
    local head, body = bytes:match("^(.-\r\n\r\n)(.*)$")
    assert.is_truthy(head:find("Content-Length: " .. built.length, 1, true))
    assert.equal(built.length, #body)
    assert.is_truthy(body:find("all: $(MODULE)", 1, true))
    local n = 0
    built = build.multipart({ { name = "f", content = function() n = n + 1 return n == 1 and "x" or nil end } },
      { boundary = "B" })
    bytes = written(message.write_request, { method = "PUT", target = "/", body = built })
    assert.is_truthy(bytes:find("Transfer-Encoding: chunked", 1, true))
    assert.equal("0\r\n\r\n", bytes:sub(-5))
  end)

  it("says when a part is shorter than its length, while it is written", function()
    local built = build.multipart { { name = "a", content = reader.from_string("abc"), length = 5 } }
    local _, ok, _, code = written(message.write_request, { method = "PUT", target = "/", body = built })
    assert.is_nil(ok)
    assert.equal("unexpected-eof", code)
  end)

  it("takes many parts in linear time", function()
    local parts = {}
    for i = 1, 20000 do parts[i] = { name = "field" .. i, content = "value" } end
    local before = os.clock()
    local built = build.multipart(parts)
    assert.equal(built.length, built.reader:skip())
    if not os.getenv("PARTLINE_UNDER") then assert.is_true(os.clock() - before < 2) end
  end)
end)

-- ---- requests ----

describe("build.content", function()
  it("with a length is so many bytes of whatever it is", function()
    local function built() return build.multipart({ { name = "a", content = "1" } }, { boundary = "B" }) end
    local whole = bytes_of(built())
    for _, case in ipairs {
      { "foobar", "foo", true }, { 123456, "123", true }, { built(), whole:sub(1, 3), true },
      { io.open("LICENSE", "rb"), "MIT", true }, { reader.from_string("foobar"), "foo", false },
      { function() return "foobar" end, "foo", false },
    } do
      local content = build.content(case[1], 3)
      assert.equal(3, content.length)
      assert.equal(case[3], content.again)
      for _ = 1, content.again and 2 or 1 do
        assert.equal(("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n%s"):format(case[2]),
          (written(message.write_request, { method = "PUT", target = "/", body = content.open(), length = 3 })))
      end
    end
    assert.equal("", build.content("foobar", 0).open())
    assert.equal("foobar", build.content("foobar", 6).open())
    local bytes, _, code = build.content("foo", 6).open():read("a")
    assert.is_nil(bytes)
    assert.equal("unexpected-eof", code)
  end)

  it("raises for what is no length", function()
    for _, length in ipairs { -1, 1.5, "3", true, {} } do
      assert.error_matches(function() build.content("foobar", length) end, "length must be a non%-negative integer")
    end
  end)
end)

describe("message.write_request", function()
  local function request(r)
    local bytes, ok, text, code = written(message.write_request, r)
    return ok and bytes, text, code, bytes
  end

  it("sets the framing itself", function()
    assert.equal("GET / HTTP/1.1\r\nHost: h\r\n\r\n", request { target = "/", headers = { Host = "h" } })
    assert.equal("GET /a?b HTTP/1.1\r\n\r\n", request { path = "/a", query = "b" })
    assert.equal("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", request { method = "POST", target = "/" })
    assert.equal("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", request { method = "PUT", target = "/",
      body = "abc" })
    assert.equal("PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\n42", request { method = "PUT", target = "/", body = 42 })
    local pieces = { "a", "", "bc" }
    local i = 0
    assert.equal("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", request {
      method = "PUT", target = "/", body = function() i = i + 1 return pieces[i] end,
    })
    assert.equal("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", request {
      method = "PUT", target = "/", body = reader.from_string("abcd"), headers = { ["content-length"] = "3" },
    } or request { method = "PUT", target = "/", body = reader.limit(reader.from_string("abcd"), 3) })
  end)

  it("refuses contradictory framing before a byte is sent", function()
    for _, r in ipairs {
      { headers = { ["Content-Length"] = "5" }, body = "abc" },
      { headers = { ["Content-Length"] = "5" } },
      { headers = { ["Content-Length"] = "3, 3" }, body = "abc" },
      { headers = { { "Content-Length", "3" }, { "content-length", "3" } }, body = "abc" },
      { headers = { ["Content-Length"] = "+3" }, body = "abc" },
      { headers = { ["Transfer-Encoding"] = "chunked" }, body = "abc" },
      { headers = { ["transfer-encoding"] = "gzip" }, body = function() end },
      { body = true },
    } do
      r.method, r.target = "POST", "/"
      local ok, _, code, bytes = request(r)
      assert.is_falsy(ok)
      assert.equal("invalid-header-value", code)
      assert.equal("", bytes)
    end
  end)

  it("says when a body is shorter than was told", function()
    local ok, _, code = request {
      method = "PUT", target = "/", headers = { ["Content-Length"] = "5" }, body = function() end,
    }
    assert.is_falsy(ok)
    assert.equal("unexpected-eof", code)
  end)

  it("sends no more of a multipart body than was told", function()
    local function put(length, content)
      local body = build.multipart({ { name = "a", content = content } }, { boundary = "B" })
      return request { method = "PUT", target = "/", headers = { ["Content-Length"] = length }, body = body }
    end
    local function pieces() return io.popen("printf 1") end -- of no known length
    local whole = '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B--\r\n'
    for _, length in ipairs { #whole, 5 } do
      assert.equal(("PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s"):format(length, whole:sub(1, length)),
        put(length, pieces()))
    end
    assert.equal("unexpected-eof", select(3, put(#whole + 1, pieces())))
    assert.equal("invalid-header-value", select(3, put(5, "1")))
  end)

  it("writes to objects and files as well", function()
    local sink = { out = {} }
    function sink:write(bytes) self.out[#self.out + 1] = bytes return self end
    assert(message.write_request(sink, { target = "/" }))
    assert.equal("GET / HTTP/1.1\r\n\r\n", table.concat(sink.out))
    assert.has_error(function() message.write_request(42, { target = "/" }) end)
    assert.is_true(core.writer.is(core.writer["function"](print)))
  end)
end)
