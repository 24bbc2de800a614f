-- partline.client and raw answers: the right value or the right error, never a hang.

local loop = require "partline.loop"
local splits = require "spec.support.splits"
local scripted = require "spec.support.scripted"

local OK, HEAD, always, once = scripted.OK, scripted.HEAD, scripted.always, scripted.once
local request_of, say, with = scripted.request_of, scripted.say, scripted.with

-- ---- answers ----

-- name, what the server sends, then the status and body, or the code of the error; the method
local answers = {
  { "a length", HEAD .. "Content-Length: 5\r\n\r\nhello", 200, "hello" },
  { "no body at all", HEAD .. "Content-Length: 0\r\n\r\n", 200, "" },
  { "chunks", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 200, "hello!" },
  { "chunks with extensions and trailers", HEAD
    .. "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n",
    200, "hello" },
  { "a body up to the close", HEAD .. "\r\nhello", 200, "hello" },
  { "HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello" },
  { "a transfer coding that does not end in chunked", HEAD .. "Transfer-Encoding: x\r\n\r\nhello", 200, "hello" },
  { "a truncated length", HEAD .. "Content-Length: 10\r\n\r\nhello", nil, "unexpected-eof" },
  { "a truncated chunk", HEAD .. "Transfer-Encoding: chunked\r\n\r\na\r\nhello", nil, "unexpected-eof" },
  { "a missing last chunk", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", nil, "unexpected-eof" },
  { "a last chunk cut off", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", nil, "unexpected-eof" },
  { "chunk size 5x", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n", nil, "bad-chunk-size" },
  { "chunk size -5", HEAD .. "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", nil, "bad-chunk-size" },
  { "chunk size 0x5", HEAD .. "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", nil, "bad-chunk-size" },
  { "no chunk size", HEAD .. "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", nil, "bad-chunk-size" },
  { "a chunk size that overflows", HEAD .. "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx", nil,
    "chunk-size-overflow" },
  { "white space behind a chunk size", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", 200,
    "hello" },
  { "no CRLF behind a chunk", HEAD .. "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n", nil,
    "bad-chunk-terminator" },
  { "a transfer coding and a length", HEAD
    .. "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    nil, "te-and-cl" },
  { "two lengths", HEAD .. "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", nil, "conflicting-length" },
  { "length abc", HEAD .. "Content-Length: abc\r\n\r\nhello", nil, "bad-content-length" },
  { "length -1", HEAD .. "Content-Length: -1\r\n\r\n", nil, "bad-content-length" },
  { "length +5", HEAD .. "Content-Length: +5\r\n\r\nhello", nil, "bad-content-length" },
  { "a length that overflows", HEAD .. "Content-Length: 99999999999999999999\r\n\r\nx", nil, "bad-content-length" },
  { "204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, nil },
  { "304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, nil },
  { "304 that claims chunks", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304, nil },
  { "HEAD with a length", HEAD .. "Content-Length: 5\r\n\r\n", 200, nil, "HEAD" },
  { "HEAD with chunks", HEAD .. "Transfer-Encoding: chunked\r\n\r\n", 200, nil, "HEAD" },
  { "100, 102 and 103 first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: 1\r\n\r\n" ..
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" .. OK, 200, "ok" },
  { "twenty times 100", ("HTTP/1.1 100 Continue\r\n\r\n"):rep(20) .. OK, 200, "ok" },
  { "no reason phrase", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, "ok" },
  { "an empty reason phrase", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", 200, "ok" },
  { "bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok" },
  { "a folded field", HEAD .. "X: a\r\n b\r\nContent-Length: 2\r\n\r\nok", 200, "ok" },
  { "nothing", "", nil, "unexpected-eof" },
  { "half a head", "HTTP/1.1 200 OK\r\nContent-Le", nil, "unexpected-eof" },
  { "100 and nothing more", "HTTP/1.1 100 Continue\r\n\r\n", nil, "unexpected-eof" },
  { "garbage", "\0\1\2garbage\r\n\r\n", nil, "bad-status-line" },
  { "another protocol", "SSH-2.0-OpenSSH_9.2\r\n", nil, "bad-status-line" },
  { "HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", nil, "bad-version" },
  { "a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", nil, "bad-status-line" },
  { "a field without a colon", HEAD .. "X\r\n\r\n", nil, "bad-header-name" },
  { "a NUL in a field", HEAD .. "X: a\0b\r\n\r\n", nil, "bad-header-value" },
  { "101 fields", HEAD .. ("X: 1\r\n"):rep(101) .. "\r\n", nil, "header-too-large" },
  { "bytes behind the body", OK .. "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", 200, "ok" },
}

local function check_answer(case, pieces, how)
  with(once(pieces), function(s)
    local response, text, code = s.client.request(case[5] or "GET", s.url)
    if case[3] then
      assert.equal(case[3], response and response.status, how .. ": " .. tostring(text))
      assert.equal(case[4], response.body, how)
    else
      assert.is_nil(response, how)
      assert.is_string(text, how)
      assert.equal(case[4], code, how)
    end
    assert.equal(1, s.count, how) -- nobody asked twice
    loop.sleep(0)
    assert.equal(0, s.pool:stats().lent, how)
  end)
end

describe("the client understands", function()
  for _, case in ipairs(answers) do
    it(case[1], function()
      check_answer(case, { case[2] }, "whole")
      if #case[2] < 300 then
        for pieces, how in splits.pieces_of(case[2], "bytewise") do check_answer(case, pieces, how) end
      end
    end)
  end

  it("a header line of 5 MB: refused, in bounded memory", function()
    collectgarbage()
    local before = collectgarbage("count")
    local most = 0
    local line = ("x"):rep(64 * 1024)
    with(function(c)
      request_of(c)
      if not say(c, HEAD .. "X: ") then return end
      for _ = 1, 80 do
        if not say(c, line) then return end
        most = math.max(most, collectgarbage("count"))
      end
      say(c, "\r\n\r\n")
    end, function(s)
      local response, _, code = s.client.get(s.url)
      assert.is_nil(response)
      assert.equal("header-too-large", code)
    end)
    if not os.getenv("PARTLINE_UNDER") then assert.is_true(most - before < 1024, most - before .. " KiB") end
  end)

  it("larger heads when it is told to", function()
    with(always(HEAD .. "X: " .. ("x"):rep(20000) .. "\r\nContent-Length: 0\r\n\r\n"), function(s)
      assert.equal("header-too-large", select(3, s.client.get(s.url)))
      assert.equal(20000, #s.client.get(s.url, { max_head = 65536 }).headers.X)
    end)
  end)

  it("no reason phrase, and fields of the head", function()
    with(always("HTTP/1.1 299\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"),
      function(s)
      local response = assert(s.client.get(s.url))
      assert.equal("", response.reason_phrase)
      assert.equal("", response["reason-phrase"])
      assert.same({ "a", "b" }, response.headers["Set-Cookie"])
      assert.equal("1, 2", response.headers["x-a"])
      assert.same({ name = "HTTP", major = 1, minor = 1 }, response.protocol_version)
      assert.equal(0, response.length)
      assert.same({}, response.trace_redirects)
      assert.equal("integer", math.type(response.request_time))
      assert.is_table(response.http_client)
    end)
  end)
end)
