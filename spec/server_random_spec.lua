-- Random pipelines of requests, good and bad, cut at random, to handlers that answer, wait and fail at random: what
-- comes back must be, byte for byte, what comes back whole from a server with a log, which serves all of it in Lua.
-- PARTLINE_ROUNDS says how many (default 200); PARTLINE_SEED repeats a run, which a failure names.

local partline = require "partline"
local serving = require "spec.support.serving"

local ROUNDS = tonumber(os.getenv("PARTLINE_ROUNDS")) or (os.getenv("PARTLINE_UNDER") and 20 or 200)
local SEED = tonumber(os.getenv("PARTLINE_SEED")) or os.time()

local rnd = math.random

local function pick(list) return list[rnd(#list)] end

local good = {
  "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", "GET /%d?a=b HTTP/1.1\r\nHost: h\r\nX: y\r\nx: z\r\n\r\n",
  "HEAD /%d HTTP/1.1\r\nHost: h\r\n\r\n", "\r\nDELETE /%d HTTP/1.1\r\nHost: h\r\n\r\n",
  "POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
  "PUT /%d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
  "POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
  "GET /%d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
}

local last = {
  "GET /%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET /%d HTTP/1.0\r\n\r\n", "GET /%d HTTP/1.1\r\n\r\n",
  "GET /%d HTTP/1.1\r\nHost: h\r\nbad field\r\n\r\n", "GARBAGE %d\r\n\r\n", "GET /%d HTTP/2.0\r\nHost: h\r\n\r\n",
  "POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
  "POST /%d HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n",
  "POST /%d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}

local function new_pipeline()
  local out = {}
  for i = 1, rnd(0, 12) do out[i] = pick(good):format(i) end
  out[#out + 1] = pick(last):format(#out + 1)
  return table.concat(out)
end

-- The same answers to the same requests each time: how request i is answered depends on the round and on i.
local function new_handler(round)
  local kinds = {
    function(request) return request.method .. " " .. request.path end,
    function() return { body = ("x"):rep(rnd(0, 200)) } end,
    function() return { status = 404, body = "none" } end,
    function() return { status = 204 } end,
    function() return { headers = { ["X-Own"] = "1" }, body = "own" } end,
    function() return { body = ("big"):rep(30000) } end,
    function() error("failed", 0) end,
    function() error({ status = 403, message = "no" }, 0) end,
    function() return 5 end,
    function() return { stream = function(write) write("one") partline.sleep(0) write("two") end } end,
    function(request) return request.content and request.content:read("a") or "no body" end,
    function(request) return { body = request.length and request.body or "nothing" } end, -- chunks would tell of cuts
    function() return { body = "bye", headers = { Connection = "close" } } end,
  }
  return function(request)
    local i = tonumber(request.path:match("%d+")) or 0
    math.randomseed(SEED + round * 1000 + i)
    local kind, waits = rnd(#kinds), rnd(4) == 1
    if waits then serving.sleep(0) end
    math.randomseed(SEED + round * 1000 + i + 500)
    return kinds[kind](request)
  end
end

local function undated(bytes) return (bytes:gsub("\r\nDate: [^\r]*", "\r\nDate: now")) end

-- All that answers; `sizes` of the pieces.
local function answers(handler, bytes, opts, sizes)
  local got
  serving.run(handler, opts, function(t)
    local c = t.connect()
    local at = 1
    for _, size in ipairs(sizes) do
      if at > #bytes or not c:send(bytes:sub(at, at + size - 1)) then break end
      at = at + size
      t.loop.sleep(0)
    end
    if at <= #bytes then c:send(bytes:sub(at)) end
    got = c:rest()
    c:close()
  end)
  return got and undated(got)
end

local function same(whole, got, where)
  if whole == got then return end
  whole, got = tostring(whole), tostring(got)
  local at = 1
  while at < #whole and whole:byte(at) == got:byte(at) do at = at + 1 end
  local function piece(bytes) return bytes:sub(at - 40, at + 100) end
  error(("%s\nfrom byte %d of %d and %d on:\n%s\nnot\n%s"):format(where, at, #whole, #got, piece(got), piece(whole)), 0)
end

describe("a random pipeline", function()
  it("is answered the same, whole and cut, with and without a log", function()
    for round = 1, ROUNDS do
      math.randomseed(SEED + round)
      local bytes, sizes = new_pipeline(), {}
      for i = 1, rnd(30) do sizes[i] = rnd(rnd(60)) end
      local handler = new_handler(round)
      local whole = answers(handler, bytes, { log = function() end, may_fail = true }, {})
      local where = ("PARTLINE_SEED=%d, round %d: %q"):format(SEED, round, bytes)
      same(whole, answers(handler, bytes, { may_fail = true }, {}), where)
      same(whole, answers(handler, bytes, { may_fail = true }, sizes), where)
      same(whole, answers(handler, bytes, { may_fail = true, ["late-headers"] = false }, sizes), where)
    end
  end)
end)
