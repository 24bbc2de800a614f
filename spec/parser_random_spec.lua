-- Broken messages at random: what the push parsers make of them, cut at random, is what the Readers make of them whole.
-- PARTLINE_ROUNDS says how many (default 3000); PARTLINE_SEED repeats a run, which a failure names.

local feed = require "spec.support.feed"
local push = require "spec.support.push"

local ROUNDS = tonumber(os.getenv("PARTLINE_ROUNDS")) or (os.getenv("PARTLINE_UNDER") and 300 or 3000)
local SEED = tonumber(os.getenv("PARTLINE_SEED")) or os.time()

local FORM_TYPE = "multipart/form-data; boundary=b"

local SEEDS = {
  request = {
    "GET /a?b HTTP/1.1\r\nHost: h\r\nX: 1\r\nx: 2\r\n\r\n",
    "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nhello world",
    "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
    "\r\nOPTIONS * HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: a\r\n\r\nGET",
  },
  response = {
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\n"
      .. "a \r\n0123456789\r\n0\r\n\r\n",
    "HTTP/1.0 404 Not\nA: folded\r\n  value\n\nuntil the end",
    "HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxyz",
  },
  chunked = {
    "5;x=\"y;\"\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\nHost: no\r\nx-sum: 2\r\n\r\nrest",
    "1\r\na\r\n1\r\nb\r\n10\r\n0123456789abcdef\r\n000\r\n\r\n",
  },
  multipart = {
    "pre\r\n--b\r\nContent-Disposition: form-data; name=\"one\"\r\n\r\nfirst\r\n-\r\n--b  \r\n"
      .. "Content-Disposition: form-data; name=two; filename=\"x.txt\"; filename*=utf-8''%e2%82%ac\r\n"
      .. "Content-Length: 6\r\n\r\nsecond\r\n--bb\r\n\r\n--b\r\nContent-Disposition: form-data; name=three\r\n\r\n"
      .. "\r\n--b--\r\nepilogue",
    "--b\r\nContent-Disposition: form-data; name=x\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "5\r\nthird\r\n0\r\nT: 1\r\n\r\n\r\n--b\r\nContent-Disposition: form-data;\r\n name=y\r\n\r\n\r\n\r\n--b--",
  },
}

local WORDS = {
  "\r", "\n", "\r\n", "\r\n\r\n", " ", "\t", ":", ";", ",", "\0", "\xff", "0", "1", "f", "-", "--", "--b", "\r\n--b",
  "\r\n--b--", "\"", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Host: a\r\n", "chunked", "HTTP/1.1",
  "Content-Disposition: form-data; name=z\r\n", "Connection: close\r\n", "x", "b",
}

local function broken(random, bytes)
  for _ = 1, random(0, 3) do
    local at, n = random(0, #bytes), random(0, 4)
    local word = random(3) == 1 and bytes:sub(at, at + random(0, 40)) or WORDS[random(#WORDS)]
    bytes = bytes:sub(1, at) .. word .. bytes:sub(at + 1 + (random(2) == 1 and n or 0))
  end
  if random(4) == 1 then bytes = bytes:sub(1, random(0, #bytes)) end
  return bytes
end

local function cut(random, bytes)
  local pieces, i = {}, 1
  local most = ({ 1, 3, 20, 200, 1000 })[random(5)]
  while i <= #bytes do
    local n = random(0, most)
    pieces[#pieces + 1] = bytes:sub(i, i + n - 1)
    i = i + n
  end
  return pieces
end

local METHODS = { "GET", "HEAD", "CONNECT" }

local run = {
  request = { function(r) return feed.request(r) end, function(pieces, eof) return push.request(pieces, eof) end },
  response = {
    function(r, method) return feed.response(r, method) end,
    function(pieces, eof, method) return push.response(pieces, eof, method) end,
  },
  chunked = { function(r) return feed.chunked(r) end, function(pieces, eof) return push.chunked(pieces, eof) end },
  multipart = {
    function(r) return feed.multipart(r, FORM_TYPE) end,
    function(pieces, eof) return push.multipart(pieces, eof, FORM_TYPE) end,
  },
}

describe("random input", function()
  for _, kind in ipairs { "request", "response", "chunked", "multipart" } do
    it(("is the same to push and pull: %s (PARTLINE_SEED=%d)"):format(kind, SEED), function()
      math.randomseed(SEED)
      local seeds, pull, fed = SEEDS[kind], table.unpack(run[kind])
      for round = 1, ROUNDS do
        local bytes = broken(math.random, seeds[math.random(#seeds)])
        local eof, method = math.random(3) > 1, METHODS[math.random(#METHODS)]
        local want = push.plain(pull(feed.reader({ bytes }, eof), method))
        if kind == "multipart" then want.used = nil end
        local pieces = cut(math.random, bytes)
        local got = fed(pieces, eof, method)
        assert.same(want, got, ("round %d: %q in %d pieces"):format(round, bytes, #pieces))
      end
    end)
  end
end)
