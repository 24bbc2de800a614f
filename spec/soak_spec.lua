-- Mixed abuse beside good requests: every good one is answered, and the server's memory stays flat.
-- Ten seconds, or SOAK_SECONDS of it (make soak: 300). The peers live here, the server in a process of its own.

local connection = require "partline.connection"
local loop_module = require "partline.loop"
local message = require "partline.message"
local process = require "spec.support.process"
local transport = require "partline.transport.luasocket"

local SECONDS = tonumber(os.getenv("SOAK_SECONDS")) or 10
local under = os.getenv("PARTLINE_UNDER")
local GOOD, BAD = 12, 24 -- peers at a time

local random = math.random
local loop, port, ending

local function connect(opts)
  local conn = transport.connect { host = "127.0.0.1", port = port, loop = loop, deadline = loop.deadline_in(10) }
  if not conn then return nil end
  if opts and opts.receive_buffer then conn.sock:setoption("recv-buffer-size", opts.receive_buffer) end
  return { conn = conn, reader = connection.reader(conn, { timeout = 20 }), writer = connection.writer(conn) }
end

local function send(c, ...)
  local ok = c.writer:write(...)
  return ok and c.writer:flush()
end

local function response(c)
  local r, text, code = message.read_response(c.reader)
  if not r then error(("no answer: %s (%s)"):format(text, code), 0) end
  local body
  body, text, code = r.body:read("a")
  if not body then error(("half an answer: %s (%s)"):format(text, code), 0) end
  return r.status, body
end

-- ---- good peers ----

local function get(path) return ("GET %s HTTP/1.1\r\nHost: a\r\n\r\n"):format(path) end

local function expect(c, bytes, status, want)
  assert(send(c, bytes))
  local got, body = response(c)
  if got ~= status or want and body ~= want then
    error(("%d %.100s instead of %d %.100s"):format(got, body, status, want or "something"), 0)
  end
  return body
end

local function post(path, body, fields)
  return ("POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s"):format(path, fields or "", #body, body)
end

local function chunks(body)
  local out, at = {}, 1
  while at <= #body do
    local piece = body:sub(at, at + random(1, 70000) - 1)
    out[#out + 1] = ("%x\r\n%s\r\n"):format(#piece, piece)
    at = at + #piece
  end
  return table.concat(out) .. "0\r\n\r\n"
end

local CHUNKED = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
local PART = "--x\r\nContent-Disposition: form-data; name="
local MULTIPART = "Content-Type: multipart/form-data; boundary=x\r\n"

local good = {
  function(c) expect(c, get("/get"), 200, "ok") end,
  function(c) expect(c, get("/slow"), 200, "ok") end,
  function(c) expect(c, get("/fail"), 500, "Internal Server Error\n") end,
  function(c)
    local n = random(0, 2000000)
    expect(c, post("/body", ("b"):rep(n)), 200, tostring(n))
  end,
  function(c)
    local body = ("c"):rep(random(1, 300000))
    expect(c, CHUNKED .. chunks(body), 200, tostring(#body))
  end,
  function(c) -- a form that arrives in pieces
    local n = random(0, 1000000)
    local body = PART .. "\"a\"\r\n\r\nvalue\r\n" .. PART .. "\"f\"; filename=\"f\"\r\n\r\n"
      .. ("\r\n--y"):rep(n // 5) .. "\r\n--x--\r\n"
    local bytes = post("/parts", body, MULTIPART)
    local cut = random(1, #bytes)
    assert(send(c, bytes:sub(1, cut)))
    loop.sleep(random() * 0.01)
    expect(c, bytes:sub(cut + 1), 200, ("a=5 f=%d"):format(n // 5 * 5))
  end,
  function(c)
    local body = ("echo"):rep(random(1, 20000))
    expect(c, post("/echo", body), 200, body)
  end,
  function(c) expect(c, post("/early", ("e"):rep(random(1, 100000))), 200, "early") end,
  function(c) -- pipelined
    local n = random(2, 30)
    assert(send(c, get("/get"):rep(n)))
    for _ = 1, n do
      local status, body = response(c)
      assert(status == 200 and body == "ok")
    end
  end,
  function(c)
    local body = expect(c, get("/big"), 200)
    assert(#body == 8 * 1024 * 1024)
  end,
}

local served = 0

local function good_peer()
  while not ending do
    local c = assert(connect(), "cannot connect")
    for _ = 1, random(1, 20) do
      if ending then break end
      good[random(#good)](c)
      served = served + 1
    end
    c.conn:close()
  end
end

-- ---- bad peers ----

local function noise(n)
  local bytes = {}
  for i = 1, n do bytes[i] = string.char(random(0, 255)) end
  return table.concat(bytes)
end

-- A good request with some bytes changed, dropped or doubled.
local function mutated()
  local whole = {
    get("/get"), post("/body", "hello"), post("/parts", PART .. "a\r\n\r\nb\r\n--x--\r\n", MULTIPART),
    CHUNKED .. "5\r\nhello\r\n0\r\n\r\n",
  }
  local s = whole[random(#whole)]
  for _ = 1, random(1, 4) do
    local at, kind = random(1, #s), random(3)
    if kind == 1 then s = s:sub(1, at - 1) .. string.char(random(0, 255)) .. s:sub(at + 1) end
    if kind == 2 then s = s:sub(1, at - 1) .. s:sub(at + 1) end
    if kind == 3 then s = s:sub(1, at) .. s:sub(at) end
  end
  return s
end

local bad = {
  function() loop.sleep(random() * 0.2) end, -- says nothing
  function(c) send(c, noise(random(1, 2000))) end,
  function(c)
    for _ = 1, 5 do
      if not send(c, mutated()) then return end
    end
    loop.sleep(random() * 0.05)
  end,
  function(c) -- a head byte by byte, slower than the server waits, or cut short
    for byte in get("/" .. ("x"):rep(200)):gmatch(".") do
      if ending or not send(c, byte) then return end
      loop.sleep(random() * 0.03)
    end
  end,
  function(c) -- a body that stops
    send(c, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n" .. ("x"):rep(random(0, 200000)))
    loop.sleep(random() * 0.5)
  end,
  function(c) -- a body that trickles until the server has enough
    send(c, "POST /parts HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n" .. MULTIPART .. "\r\n")
    for _ = 1, random(1, 30) do
      if ending or not send(c, noise(random(1, 50))) then return end
      loop.sleep(random() * 0.05)
    end
  end,
  function(c) -- wants much, takes little
    send(c, get("/big"):rep(random(1, 5)))
    c.reader:read(random(1, 100000))
    loop.sleep(random() * 0.5)
  end,
  function(c) -- a head without end
    for _ = 1, 30 do
      if not send(c, ("A: b\r\n"):rep(500)) then return end
    end
  end,
  function(c) -- many requests, nobody reads the answers
    send(c, get("/slow"):rep(random(1, 200)))
    loop.sleep(random() * 0.1)
  end,
  function(c) -- chunks as small and extensions as large as can be
    send(c, CHUNKED .. ("1;" .. ("x"):rep(99) .. "\r\ny\r\n"):rep(300))
  end,
  function(c)
    send(c, "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
    loop.sleep(random() * 0.1)
  end,
}

local function bad_peer()
  while not ending do
    local c = connect(random(2) == 1 and { receive_buffer = 4096 } or nil)
    if c then
      bad[random(#bad)](c)
      if random(3) == 1 then c.conn:shutdown("send") loop.sleep(random() * 0.02) end
      if random(2) == 1 then c.conn:abort() else c.conn:close() end
    end
    loop.sleep(random() * 0.01)
  end
end

-- ---- the hour ----

local function stats()
  local c = assert(connect())
  local memory, connections, requests = expect(c, get("/stats"), 200):match("(%d+) (%d+) (%d+)")
  c.conn:close()
  return tonumber(memory), tonumber(connections), tonumber(requests)
end

describe("mixed abuse", function()
  it(("for %g seconds leaves every good request answered and the memory flat"):format(SECONDS), function()
    local seed = tonumber(os.getenv("SOAK_SEED")) or os.time()
    math.randomseed(seed)
    loop = loop_module.new()
    local p = assert(process.start("", "spec/support/serve.lua", "soak"))
    port, ending, served = p.port, false, 0
    local failed
    loop.on_error = function(_, trace)
      failed = failed or trace
      ending = true
    end
    local early, late, resident_early, resident_late
    loop.run(function()
      for _ = 1, GOOD do loop.spawn(good_peer) end
      for _ = 1, BAD do loop.spawn(bad_peer) end
      local stop = loop.deadline_in(SECONDS)
      local middle = loop.deadline_in(SECONDS * 0.4)
      while loop.now() < stop and not ending do
        loop.sleep(0.1)
        if not early and loop.now() > middle then early, resident_early = stats(), p:resident() end
      end
      ending = true
      local quiet = loop.deadline_in(20)
      local connections
      repeat
        loop.sleep(0.2)
        late, connections = stats()
      until connections == 1 or loop.now() > quiet
      resident_late = p:resident()
      failed = failed or connections ~= 1 and connections .. " connections are left" or nil
    end)
    local why = ("%s (SOAK_SEED=%d, %d good requests)"):format(failed, seed, served)
    assert.is_nil(failed, why)
    assert.is_true(served > SECONDS * (under and 2 or 20), why)
    local said = ("Lua: %d KiB at 40 %%, %d KiB after; process: %s and %s KiB; %d good requests; SOAK_SEED=%d"):format(
      early, late, resident_early, resident_late, served, seed)
    if os.getenv("SOAK_SECONDS") then print("\n" .. said) end
    assert.is_true(late < early + 512, said)
    if not under and resident_late then assert.is_true(resident_late < resident_early + 8192, said) end
    assert.is_true(p:finish(), "the server did not end in peace")
    loop.close()
  end)
end)
