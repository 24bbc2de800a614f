-- What raw bytes get from the server: refusals by the letter of the RFC, at every cut, and a server that goes on.

local partline = require "partline"
local serving = require "spec.support.serving"

local HOST = "Host: a\r\n"

-- Echoes what it understood; reads the body.
local function handler(request)
  local body, message, code = "", nil, nil
  if request.body then body, message, code = request.body:read("a") end
  if not body then error { status = partline.errors[code].status, message = message, code = code } end
  return { status = 200, headers = { ["X-Target"] = request.target }, body = request.method .. " " .. body }
end

local function post(fields, body)
  return "POST /x HTTP/1.1\r\n" .. HOST .. fields .. "\r\n" .. (body or "")
end

local function get(fields)
  return "GET / HTTP/1.1\r\n" .. HOST .. (fields or "") .. "\r\n"
end

local CHUNKED, CHUNKS = "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"

local refused = {
  -- framing
  { "TE with CL", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400 },
  { "CL with TE", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400 },
  { "two lengths that differ", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), 400 },
  { "two lengths that agree", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400 },
  { "a list of lengths", post("Content-Length: 5, 5\r\n", "hello"), 400 },
  { "length +5", post("Content-Length: +5\r\n", "hello"), 400 },
  { "length -1", post("Content-Length: -1\r\n", "hello"), 400 },
  { "length 0x5", post("Content-Length: 0x5\r\n", "hello"), 400 },
  { "length 5.0", post("Content-Length: 5.0\r\n", "hello"), 400 },
  { "length 1e1", post("Content-Length: 1e1\r\n", "hello"), 400 },
  { "empty length", post("Content-Length: \r\n", "hello"), 400 },
  { "length 5 5", post("Content-Length: 5 5\r\n", "hello"), 400 },
  { "length of 30 digits", post("Content-Length: " .. ("9"):rep(30) .. "\r\n", "hello"), 400 },
  { "length 2^63", post("Content-Length: 9223372036854775808\r\n", "hello"), 400 },
  { "TE xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501 },
  { "TE gzip", post("Transfer-Encoding: gzip\r\n", "0\r\n\r\n"), 501 },
  { "TE gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501 },
  { "TE identity", post("Transfer-Encoding: identity\r\n", "0\r\n\r\n"), 501 },
  { "TE chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), 400 },
  { "TE chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400 },
  { "TE chunked;q=1", post("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), 400 },
  { "TE empty", post("Transfer-Encoding: \r\n", "0\r\n\r\n"), 400 },
  { "TE \\vchunked", post("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"), 400 },
  { "TE on HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
  -- field lines
  { "space before colon", get("X-A : 1\r\n"), 400 },
  { "space before colon of TE", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400 },
  { "tab before colon", get("X-A\t: 1\r\n"), 400 },
  { "no colon", get("X-A\r\n"), 400 },
  { "empty name", get(": 1\r\n"), 400 },
  { "space in front of the first field", "GET / HTTP/1.1\r\n " .. HOST .. "\r\n", 400 },
  { "obs-fold", get("X-A: 1\r\n 2\r\n"), 400 },
  { "obs-fold with tab", get("X-A: 1\r\n\t2\r\n"), 400 },
  { "bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400 },
  { "bare LF after a field", "GET / HTTP/1.1\r\n" .. HOST .. "X-A: 1\n\r\n", 400 },
  { "bare LF as the blank line", "GET / HTTP/1.1\r\n" .. HOST .. "\n", 400 },
  { "bare CR in a value", get("X-A: 1\r2\r\n"), 400 },
  { "bare CR in the request line", "GET /\r HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "CR CR LF", get("X-A: 1\r\r\n"), 400 },
  { "NUL in a value", get("X-A: 1\0002\r\n"), 400 },
  { "NUL in a name", get("X\0A: 1\r\n"), 400 },
  { "NUL in the target", "GET /\0 HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "control byte in a value", get("X-A: \1\r\n"), 400 },
  { "UTF-8 in a name", get("X-\u{E9}: 1\r\n"), 400 },
  -- Host
  { "no Host", "GET / HTTP/1.1\r\n\r\n", 400 },
  { "two Hosts", "GET / HTTP/1.1\r\n" .. HOST .. HOST .. "\r\n", 400 },
  { "two Hosts on HTTP/1.0", "GET / HTTP/1.0\r\n" .. HOST .. HOST .. "\r\n", 400 },
  { "Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400 },
  { "Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400 },
  { "Host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400 },
  -- request line
  { "TLS hello", "\22\3\1\2\0\1\0\1\252\3\3" .. ("\171"):rep(120), 400 },
  { "HTTP/2.0", "GET / HTTP/2.0\r\n" .. HOST .. "\r\n", 505 },
  { "HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", { 400, 505 } },
  { "HTTP/0.9", "GET /\r\n\r\n", 400 },
  { "HTTP/1.10", "GET / HTTP/1.10\r\n" .. HOST .. "\r\n", { 400, 505 } },
  { "http/1.1", "GET / http/1.1\r\n" .. HOST .. "\r\n", { 400, 505 } },
  { "HTTP/1", "GET / HTTP/1\r\n" .. HOST .. "\r\n", { 400, 505 } },
  { "two spaces", "GET  / HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "leading space", " GET / HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "no target", "GET HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "space in the target", "GET /a b HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "target without a slash", "GET x HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "* for GET", "GET * HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "CONNECT with a path", "CONNECT / HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "method with a bracket", "G[T / HTTP/1.1\r\n" .. HOST .. "\r\n", 400 },
  { "garbage", "garbage\r\n\r\n", 400 },
  { "binary garbage", ("\255\254\0\1"):rep(50) .. "\r\n\r\n", 400 },
  { "empty lines only", ("\r\n"):rep(20), 400 },
  { "a response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400 },
  -- bodies
  { "chunk size with a sign", post("Transfer-Encoding: chunked\r\n", "+5\r\nhello\r\n0\r\n\r\n"), 400 },
  { "chunk size 0x5", post("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n"), 400 },
  { "chunk size with a space in front", post("Transfer-Encoding: chunked\r\n", " 5\r\nhello\r\n0\r\n\r\n"), 400 },
  { "no chunk size", post("Transfer-Encoding: chunked\r\n", "\r\nhello\r\n0\r\n\r\n"), 400 },
  { "chunk size of 17 digits", post("Transfer-Encoding: chunked\r\n", ("f"):rep(17) .. "\r\nhello"), 400 },
  { "chunk size with bare LF", post("Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n"), 400 },
  { "chunk longer than said", post("Transfer-Encoding: chunked\r\n", "4\r\nhello\r\n0\r\n\r\n"), 400 },
  { "chunk data without CRLF", post("Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\n"), 400 },
  { "chunk extension with a bare LF", post("Transfer-Encoding: chunked\r\n", "5;a\nhello\r\n0\r\n\r\n"), 400 },
  { "bad trailer", post("Transfer-Encoding: chunked\r\n", "0\r\nX Y: 1\r\n\r\n"), 400 },
}

local function status_of(bytes)
  return bytes and tonumber(bytes:match("^HTTP/1%.1 (%d%d%d) "))
end

local function is_one_of(want, got)
  if type(want) == "number" then return want == got end
  for _, one in ipairs(want) do
    if one == got then return true end
  end
  return false
end

describe("raw bytes", function()
  for _, case in ipairs(refused) do
    local name, bytes, want = case[1], case[2], case[3]
    it("refuses " .. name, function()
      serving.run(handler, {}, function(t)
        local got, message = t.exchange(bytes .. get()) -- what follows must not be served
        local text = ("%s: %s"):format(name, got or message)
        assert.is_true(is_one_of(want, status_of(got)), text)
        assert.matches("\r\nConnection: close\r\n", got, 1, true)
        assert.is_nil(got:find("HTTP/1.1", 2, true), text)
        assert.equal(200, t.alive())
      end)
    end)
  end

  it("refuses the same when the bytes come one by one", function()
    serving.run(handler, {}, function(t)
      for _, case in ipairs(refused) do
        if #case[2] < 100 then
          local c = t.connect()
          for byte in case[2]:gmatch(".") do
            if not c:send(byte) then break end
            t.loop.sleep(0)
          end
          local got = c:rest()
          assert.is_true(is_one_of(case[3], status_of(got)), case[1] .. ": " .. tostring(got))
          c:close()
        end
      end
    end)
  end)

  local accepted = {
    { "a plain GET", get(), "GET " },
    { "empty lines in front", "\r\n\r\n" .. get(), "GET " },
    { "OPTIONS *", "OPTIONS * HTTP/1.1\r\n" .. HOST .. "\r\n", "OPTIONS ", "*" },
    { "absolute form", "GET http://a/x?y HTTP/1.1\r\n" .. HOST .. "\r\n", "GET ", "http://a/x?y" },
    { "HTTP/1.0 without Host", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET " },
    { "an unknown method", "BREW /pot HTTP/1.1\r\n" .. HOST .. "\r\n", "BREW ", "/pot" },
    { "an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET " },
    { "a length with leading zeros", post("Content-Length: 005\r\n", "hello"), "POST hello" },
    { "a GET with a body", get("Content-Length: 5\r\n") .. "hello", "GET hello" },
    { "CHUNKED", post("Transfer-Encoding: CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n"), "POST hello" },
    { "empty list elements in TE", post("Transfer-Encoding: , chunked ,\r\n", CHUNKS), "POST hello" },
    { "chunk extensions", post(CHUNKED, "5;a=\"b;\\\"c\"\r\nhello\r\n0;x\r\n\r\n"), "POST hello" },
    { "bytes above 0x7f in a value", get("X-A: \255\128\r\n"), "GET " },
    { "an empty value", get("X-A:\r\n"), "GET " },
    { "Expect on HTTP/1.0 is ignored", "GET / HTTP/1.0\r\nExpect: x\r\nConnection: keep-alive\r\n\r\n", "GET " },
  }

  for _, case in ipairs(accepted) do
    it("serves " .. case[1] .. ", whole and byte by byte, and keeps the connection", function()
      serving.run(handler, {}, function(t)
        local c = t.connect()
        for _, pieces in ipairs { { case[2] }, false } do
          if not pieces then
            for byte in case[2]:gmatch(".") do
              c:send(byte)
              t.loop.sleep(0)
            end
          else
            c:send(case[2])
          end
          local response = assert(c:response())
          assert.equal(200, response.status)
          assert.equal(case[3], response.body)
          if case[4] then assert.equal(case[4], response.headers["x-target"]) end
        end
      end)
    end)
  end

  it("answers 400 to a head cut off at any byte, and nothing to none at all", function()
    serving.run(handler, {}, function(t)
      local head = post("X-Long: " .. ("x"):rep(20) .. "\r\nContent-Length: 3\r\n")
      for cut = 0, #head - 1 do
        local c = t.connect()
        if cut > 0 then c:send(head:sub(1, cut)) end
        c:half_close()
        local got = c:rest()
        if cut == 0 then assert.equal("", got) else assert.equal(400, status_of(got), "cut at " .. cut) end
        c:close()
      end
      assert.equal(200, t.alive())
      assert.equal(1, t.server.stats().requests)
    end)
  end)

  it("serves a head cut in two at every byte", function()
    serving.run(handler, {}, function(t)
      local bytes = post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")
      local c = t.connect()
      for cut = 1, #bytes - 1 do
        c:send(bytes:sub(1, cut))
        t.loop.sleep(0.0005)
        c:send(bytes:sub(cut + 1))
        assert.equal("POST hello", c:response().body)
      end
    end)
  end)

  it("answers 400 to a body that the peer half-closes", function()
    serving.run(handler, {}, function(t)
      for _, bytes in ipairs {
        post("Content-Length: 5\r\n", "hell"), post("Content-Length: 5\r\n"),
        post("Transfer-Encoding: chunked\r\n", "5\r\nhel"), post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
        post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n"), post("Transfer-Encoding: chunked\r\n"),
      } do
        local c = t.connect()
        c:send(bytes)
        c:half_close()
        assert.equal(400, status_of(c:rest()), bytes)
        c:close()
      end
      assert.equal(200, t.alive())
    end)
  end)

  it("answers a peer that half-closes after a whole request", function()
    serving.run(handler, {}, function(t)
      local c = t.connect()
      c:send(get())
      c:half_close()
      assert.equal("GET ", c:response().body)
      assert.is_true(c:ended())
    end)
  end)

  it("survives a reset at any byte", function()
    serving.run(handler, {}, function(t)
      local bytes = post("Content-Length: 10\r\n", "hello")
      for cut = 0, #bytes do
        local c = t.connect()
        c:send(bytes:sub(1, cut))
        if cut % 3 == 0 then t.loop.sleep(0.001) end
        c:reset()
      end
      assert.equal(200, t.alive())
      assert.is_true(serving.eventually(function() return t.server.stats().connections <= 1 end))
    end)
  end)

  it("keeps the refusal readable while the peer goes on sending", function()
    serving.run(handler, {}, function(t)
      local c = t.connect()
      c:send("GET / HTTP/2.0\r\n" .. HOST .. "\r\n")
      for _ = 1, 20 do
        if not c:send(("x"):rep(10000)) then break end
        t.loop.sleep(0.001)
      end
      assert.equal(505, c:response().status)
    end)
  end)
end)
