--- Heads as Lua tables: the 430-byte request of a browser, beside floors compiled from luahead_floor.c: the same table
-- made from offsets that are known beforehand, with the plain Lua C API.
--
--     lua5.4 bench/luahead.lua [rounds]        (with LUA_PATH and LUA_CPATH as `make spec` sets them)
--
-- Nanoseconds per request (the best round), bytes per second at that, and the ratio to the eager floor: the median of
-- the ratios within each round, since a machine's clock changes from one round to the next.

local message = require "partline.message"
local parser = require "partline.parser"
local reader = require "partline.reader"
local core = require "partline.core"

local ROUNDS = tonumber(arg and arg[1]) or 200
local TIMES = 2048 -- calls a round
local SO = "build/bench/luahead_floor.so"

local function compile()
  local cc, include = os.getenv("CC") or "cc", os.getenv("LUA_INC") or "$(pkg-config --cflags lua5.4 2>/dev/null)"
  assert(os.execute(("mkdir -p build/bench && %s -O2 -shared -fPIC %s -o %s bench/luahead_floor.c"):format(cc, include,
    SO)))
  return assert(package.loadlib(SO, "luaopen_luahead_floor"))()
end

local floor = compile()

local function request(host, agent, language, cookie, path)
  return table.concat({
    "GET " .. path .. " HTTP/1.1", "Host: " .. host, "User-Agent: " .. agent, "Accept: image/avif,image/webp,*/*;q=0.8",
    "Accept-Language: " .. language, "Accept-Encoding: gzip, deflate", "Accept-Charset: UTF-8,*;q=0.7",
    "Keep-Alive: 115", "Connection: keep-alive", "Cookie: " .. cookie, "", "",
  }, "\r\n")
end

local AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"
local PATH = "/wp-content/uploads/2010/03/hello-kitty-darth-vader-pink.jpg"
local one = request("www.example.org", AGENT, "ja,en-us;q=0.7,en;q=0.3",
  "visits=2; lasttime=1274859837; key=0123456789abcd", PATH)

-- 512 of them that differ in every value that clients differ in: nothing of one is right for the next.
local many = {}
for i = 1, 512 do
  many[i] = request(("www%d.example.org"):format(i), ("Agent/%d.%d (%s)"):format(i, i * 7 % 10, ("x"):rep(40 + i % 17)),
    ("l%d,en;q=0.%d"):format(i, i % 10), ("visits=%d; key=%08x"):format(i, i * 7919), PATH:sub(1, 30 + i % 30) .. i)
  floor.prepare(i - 1, many[i])
end

-- The round f() makes TIMES calls.
local rows = {}
local function measure(name, bytes, f)
  rows[#rows + 1] = { name = name, bytes = bytes, f = f, rounds = {} }
end

local function all()
  for round = 1, ROUNDS do
    for _, row in ipairs(rows) do
      local start = os.clock()
      row.f()
      row.rounds[round] = (os.clock() - start) / TIMES * 1e9
    end
  end
end

local function ratio(row, base)
  local ratios = {}
  for round, ns in ipairs(row.rounds) do ratios[round] = ns / base.rounds[round] end
  table.sort(ratios)
  return ratios[(#ratios + 1) // 2]
end

local function print_all(title, base)
  print(title)
  for _, row in ipairs(rows) do
    local best = math.min(table.unpack(row.rounds))
    print(("  %-58s %6.0f ns %7.2f GB/s %6.2f"):format(row.name, best, row.bytes / best, ratio(row, base)))
  end
  rows = {}
end

local function calls(f)
  return function() for _ = 1, TIMES do f(one) end end
end

local stream = one:rep(TIMES)

local function reads(parsing)
  return function()
    local r = reader.from_string(stream)
    for _ = 1, TIMES do message.next_request(r, parsing) end
  end
end

local function core_reads(late)
  local head = core.head.new()
  return function()
    local r = reader.from_string(stream)
    for _ = 1, TIMES do head:read(r, "request", nil, late) end
  end
end

local function feeds()
  local p = parser.request { on_head = function() end }
  return function() for _ = 1, TIMES do p:feed(one) end end
end

floor.prepare(0, one)
print(("vector set: %s"):format(core.text.simd and core.text.simd() or "?"))
measure("floor: the call alone", #one, calls(floor.nothing))
measure("floor: eager table from preset offsets", #one, calls(floor.eager))
local base = rows[#rows]
measure("floor: table with the head for later, preset offsets", #one, calls(floor.late))
measure("parser.parse_request", #one, calls(parser.parse_request))
measure("core head:read from a Reader", #one, core_reads(false))
measure("core head:read, headers late", #one, core_reads(true))
measure("message.next_request", #one, reads(message.parser()))
measure("message.next_request, late_headers", #one, reads(message.parser { late_headers = true }))
measure("push parser: feed, on_head", #one, feeds())
all()
print_all(("the same request of %d bytes, nine fields"):format(#one), base)

floor.prepare(0, many[1])
local total = 0
for i = 1, #many do total = total + #many[i] end

local function turns(f)
  return function()
    for i = 0, TIMES - 1 do
      local k = i % 512
      f(many[k + 1], k)
    end
  end
end

local parse, eager = parser.parse_request, floor.eager -- each through a Lua function, since only one of them takes k
measure("floor: eager table from preset offsets", total / 512, turns(function(s, k) eager(s, k) end))
base = rows[#rows]
measure("parser.parse_request", total / 512, turns(function(s) parse(s) end))
all()
print_all("512 requests in turn, all values of them different", base)
