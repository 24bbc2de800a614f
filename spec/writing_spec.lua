-- Heads and bodies on their way out: what leaves, and what is refused before a byte has.

local core = require "partline.core"
local reader = require "partline.reader"
local writing = require "partline.writing"

-- A Writer that gathers what it sends, and one that breaks after n bytes.
local function sink(most)
  local pieces, n = {}, 0
  local writer = core.writer["function"](function(bytes)
    n = n + #bytes
    if most and n > most then return nil, "gone", "closed" end
    pieces[#pieces + 1] = bytes
    return true
  end)
  return writer, function() return table.concat(pieces) end
end

local function response(r, about)
  local writer, got = sink()
  local keep_alive, message, code, begun = writing.write_response(writer, r, about)
  return got(), keep_alive, message, code, begun
end

local function no_date(bytes)
  return (bytes:gsub("Date: [^\r]*\r\n", ""))
end

describe("write_response", function()
  it("writes head and body", function()
    local bytes, keep_alive = response { status = 404, headers = { A = "b" }, body = "gone" }
    assert.equal("HTTP/1.1 404 Not Found\r\nA: b\r\nContent-Length: 4\r\n\r\ngone", no_date(bytes))
    assert.is_true(keep_alive)
    assert.equal("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", no_date(response {}))
    assert.equal("HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n", no_date(response { status = 299 }))
    assert.equal("HTTP/1.1 200 Fine\r\nContent-Length: 0\r\n\r\n", no_date(response { reason_phrase = "Fine" }))
  end)

  it("dates it in the one format of RFC 9110", function()
    local FORMAT = "Date: (%a+), (%d%d) (%a+) (%d%d%d%d) (%d%d:%d%d:%d%d) GMT\r\n"
    local day, date, month, year, time = response({}):match(FORMAT)
    assert.is_truthy(day and date and month and time)
    local now = os.date("!*t")
    assert.is_true(math.abs(tonumber(year) - now.year) <= 1)
    assert.equal(os.date("!%a", os.time()), day)
  end)

  it("takes bodies of every kind", function()
    local function body_of(body)
      return (no_date(response { body = body }):gsub("^HTTP/1.1 200 OK\r\n", ""))
    end
    assert.equal("Content-Length: 2\r\n\r\n42", body_of(42))
    assert.equal("Content-Length: 3\r\n\r\nabc", body_of(reader.from_string("abc")))
    local file = io.tmpfile()
    file:write("abcdef")
    file:seek("set", 2)
    assert.equal("Content-Length: 4\r\n\r\ncdef", body_of(file))
    file:close()
    local i = 0
    assert.equal("Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n", body_of(function()
      i = i + 1
      return i < 3 and tostring(i) or nil
    end))
    assert.equal("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", body_of(function() return nil end))
  end)

  it("tells what it sent", function()
    local writer = sink()
    local about = { method = "GET" }
    writing.write_response(writer, { body = "abc" }, about)
    assert.equal((writer:status()), about.head_bytes + 3)
    assert.equal("length", about.framing)
  end)

  it("closes where the end of the body needs it, or somebody asked", function()
    local function keep(r, about) return (select(2, response(r, about))) end
    assert.is_true(keep({}))
    assert.is_false(keep({}, { keep_alive = false }))
    assert.is_false(keep({ headers = { Connection = "close" } }))
    assert.is_false(keep({ headers = { connection = "x,  CLOSE" } }))
    assert.is_true(keep({ headers = { connection = "disclose" } }))
    assert.is_false(keep({ body = function() end }, { http10 = true }))
    assert.is_true(keep({ body = "x" }, { http10 = true }))
    assert.matches("\r\nConnection: keep%-alive\r\n", (response({ body = "x" }, { http10 = true })))
    assert.matches("\r\nConnection: close\r\n", (response({ body = function() end }, { http10 = true })))
  end)

  it("refuses before a byte is sent", function()
    local bad = {
      coding = { headers = { ["transfer-encoding"] = "x" } },
      length = { headers = { ["content-length"] = "+1" } },
      line = { headers = { A = "b\nc" } }, name = { headers = { ["a b"] = "c" } },
      kind = { headers = { [true] = "c" } }, body = { body = {} }, status = { status = 1000 }, float = { status = 1.5 },
      reason = { reason_phrase = "a\rb" }, value = { headers = { A = print } },
      type = { headers = { ["content-type"] = "multipart/mixed" }, multipart = {} },
      boundary = { multipart = { boundary = "a\nb" } },
    }
    for name, r in pairs(bad) do
      local bytes, ok, message, code, begun = response(r)
      assert.equal("", bytes, name)
      assert.is_nil(ok)
      assert.is_string(message)
      assert.equal(name == "boundary" and "invalid-boundary" or "invalid-header-value", code)
      assert.is_falsy(begun)
    end
  end)

  it("drops the head when the body fails before its first byte", function()
    local writer, got = sink()
    local ok, message, code, begun = writing.write_response(writer, { body = function() return nil, "no", "mine" end })
    assert.same({ nil, "no", "mine", false }, { ok, message, code, begun })
    writer:flush()
    assert.equal("", got())
    ok = writing.write_response(writer, { body = "instead" })
    assert.is_true(ok)
    assert.matches("instead$", got())
  end)

  it("says when bytes had left", function()
    local n = 0
    local writer, got = sink()
    local ok, _, _, begun = writing.write_response(writer, { body = function()
      n = n + 1
      if n == 2 then return nil, "no" end
      return "piece"
    end })
    assert.is_nil(ok)
    assert.is_true(begun)
    assert.matches("5\r\npiece\r\n$", got())
  end)

  it("fails with its Writer", function()
    local writer = sink(10)
    local ok, _, code, begun = writing.write_response(writer, { body = "x" })
    assert.is_nil(ok)
    assert.equal("write-failed", code)
    assert.is_true(begun)
  end)

  it("ends short bodies with an error, and cuts long ones", function()
    local _, ok, _, code = response { headers = { ["Content-Length"] = 5 }, body = function() return nil end }
    assert.is_nil(ok)
    assert.equal("unexpected-eof", code)
    local bytes = response { headers = { ["Content-Length"] = 5 }, body = function() return "abc" end }
    assert.matches("\r\n\r\nabcab$", bytes)
  end)

  it("gives a stream its failure again and again", function()
    local results = {}
    local writer = sink(10)
    writing.write_response(writer, { stream = function(write)
      for i = 1, 2 do results[i] = { write("x") } end
      assert.has_error(function() write(5) end)
      assert.has_error(function() write(nil) end)
    end })
    assert.is_nil(results[1][1])
    assert.same(results[1], results[2])
    assert.equal("write-failed", results[1][3])
  end)

  it("passes on what a stream raises", function()
    local writer = sink()
    local function failing() error("mine", 0) end
    assert.has_error(function() writing.write_response(writer, { stream = failing }) end, "mine")
  end)

  it("puts trailers behind the last chunk", function()
    local bytes = response { body = "abc", trailers = { { "B", "1" }, { "A", "2" } } }
    assert.matches("\r\nTrailer: A, B\r\n", bytes)
    assert.matches("\r\n\r\n3\r\nabc\r\n0\r\nB: 1\r\nA: 2\r\n\r\n$", bytes)
    for _, name in ipairs { "Content-Length", "transfer-encoding", "Host", "Set-Cookie", "Content-Type" } do
      local sent, ok = response { body = "abc", trailers = { [name] = "1" } }
      assert.is_nil(ok)
      assert.equal("", sent)
    end
    local _, ok, _, _, begun = response { stream = function(write) write("x") end,
      trailers = function() return { Host = "x" } end }
    assert.is_nil(ok)
    assert.is_true(begun)
  end)
end)

describe("write_request", function()
  local function request(r)
    local writer, got = sink()
    local ok, message, code = writing.write_request(writer, r)
    if not ok then return nil, message, code, got() end
    return got()
  end

  it("writes head and body", function()
    assert.equal("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", request { target = "/a?b", headers = { Host = "x" } })
    assert.equal("GET /a?b HTTP/1.1\r\n\r\n", request { path = "/a", query = "b" })
    local post = { method = "POST", target = "/", body = "abc" }
    assert.equal("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", request(post))
    assert.equal("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", request { method = "POST", target = "/" })
    local i = 0
    local got = request { method = "PUT", target = "/", body = function()
      i = i + 1
      return i < 3 and "ab" or nil
    end }
    assert.equal("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\nab\r\n0\r\n\r\n", got)
  end)

  it("refuses what would break the framing, before a byte is sent", function()
    for code, cases in pairs {
      ["invalid-request-line"] = {
        { target = "/a b" }, { target = "" }, { target = "/\r\n" }, { method = "G T", target = "/" }, {},
      },
      ["invalid-header-value"] = {
        { target = "/", headers = { A = "\r\n" } }, { target = "/", headers = { ["Transfer-Encoding"] = "chunked" } },
        { target = "/", headers = { ["Content-Length"] = "5" }, body = "abc" }, { target = "/", body = {} },
      },
    } do
      for _, case in ipairs(cases) do
        local ok, message, got, sent = request(case)
        assert.is_nil(ok)
        assert.is_string(message)
        assert.equal(code, got)
        assert.equal("", sent)
      end
    end
  end)
end)

describe("reason", function()
  it("is the registry's, or empty", function()
    assert.equal("OK", writing.reason(200))
    assert.equal("Content Too Large", writing.reason(413))
    assert.equal("", writing.reason(299))
  end)
end)
