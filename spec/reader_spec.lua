-- Reading from every kind of source. (copy and save: reader_copy_spec.lua; waiting: reader_wait_spec.lua.)

local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local check = require "spec.support.check"
local sources = require "spec.support.sources"

local fails, raises = check.fails, check.raises
local from_string, from_function = reader.from_string, reader.from_function

-- The end is nil alone.
local function ends(...)
  assert.equal(1, select("#", ...))
  assert.is_nil((...))
end

-- ---- what a Reader must do, in Lua: the model that every source is compared with ----

local Model = {}
Model.__index = Model

local function model(bytes) return setmetatable({ bytes = bytes, at = 1 }, Model) end

function Model:left() return #self.bytes - self.at + 1 end

function Model:take(n)
  local s = self.bytes:sub(self.at, self.at + n - 1)
  self.at = self.at + #s
  return s
end

function Model:read(format)
  if math.type(format) then
    if self:left() == 0 then return nil end
    return self:take(format)
  end
  format = format:gsub("^%*", "")
  if format == "a" then return self:take(self:left()) end
  if self:left() == 0 then return nil end
  local line = self:take((self.bytes:find("\n", self.at, true) or #self.bytes) - self.at + 1)
  return format == "L" and line or (line:gsub("\n$", ""))
end

local TEXT = "first\nsecond line\r\n\n\0\1\2\255binary\n" .. ("x"):rep(300) .. "\nlast, without end"

local INPUTS = {
  TEXT, "", "\n", "\n\n\n", "a", "one line\n", ("0123456789"):rep(2000), ("line\r\n"):rep(500),
  ("\r\n--a-boundary-not\r\n--"):rep(20),
}

-- One step on both; the model says what must come.
local steps = {}

function steps.read(r, m, random)
  local formats = { 0, 1, 2, 7, 100, 5000, "l", "L", "a", "*l", "*L", "*a" }
  local format = formats[random(#formats)]
  assert.equal(m:read(format), r:read(format))
end

function steps.read_several(r, m, random)
  local formats = { 3, "l", "L", 1, "*l", 0 }
  local a, b, c = formats[random(#formats)], formats[random(#formats)], formats[random(#formats)]
  local want = { m:read(a) }
  if want[1] then want[2] = m:read(b) end
  if want[2] then want[3] = m:read(c) end
  assert.same(want, { r:read(a, b, c) })
end

function steps.read_some(r, m, random)
  local max = random(20)
  local got = r:read_some(max)
  if m:left() == 0 then return assert.is_nil(got) end
  assert.is_true(#got >= 1 and #got <= max)
  assert.equal(m:take(#got), got)
end

function steps.peek(r, m, random)
  local n = random(0, 40)
  local got = r:peek(n)
  if m:left() == 0 then return assert.is_nil(got) end
  assert.equal(m.bytes:sub(m.at, m.at + n - 1), got)
end

function steps.skip(r, m, random)
  local n = random(0, 30)
  assert.equal(#m:take(n), r:skip(n))
end

function steps.length(r, m)
  local n = r:length()
  if n then assert.equal(m:left(), n) end
  assert.equal(n, #r)
end

function steps.lines(r, m, random)
  local format = ({ "l", "L", 4 })[random(3)]
  local lines = r:lines(format)
  for _ = 1, 2 do assert.equal(m:read(format), lines()) end
end

local names = {}
for name in pairs(steps) do names[#names + 1] = name end
table.sort(names)

-- The same pseudo-random sequence everywhere.
local function generator(seed)
  return function(a, b)
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    if not b then a, b = 1, a end
    return a + (seed >> 8) % (b - a + 1)
  end
end

for name, open in sources.each() do
  describe("a Reader of " .. name, function()
    it("reads as the model does", function()
      for i, bytes in ipairs(INPUTS) do
        for seed = 1, 4 do
          local random = generator(seed * 100 + i)
          local r, close = open(bytes)
          local m = model(bytes)
          sources.run(function()
            for _ = 1, 30 do steps[names[random(#names)]](r, m, random) end
            assert.equal(m:read("a"), r:read("a"))
            for _ = 1, 2 do
              ends(r:read(1))
              ends(r:read("l"))
              ends(r:read_some())
              ends(r:peek(1))
              ends(r:read(0))
            end
            assert.equal("", r:read("a"))
            assert.equal(0, r:skip())
            assert.equal(0, r:copy(function() error("there is nothing to copy") end))
            assert.equal("ended", (r:status()))
          end)
          close()
        end
      end
    end)

    it("gives all of it by each of its methods", function()
      local ways = {
        function(r) return r:read("a") end,
        function(r)
          local out = {}
          for line in r:lines("L") do out[#out + 1] = line end
          return table.concat(out)
        end,
        function(r)
          local out = {}
          for piece in r:source() do out[#out + 1] = piece end
          return table.concat(out)
        end,
        function(r)
          local out = {}
          assert.equal(#TEXT, r:copy(function(piece) out[#out + 1] = piece end))
          return table.concat(out)
        end,
        function(r)
          assert.equal(TEXT, r:peek(#TEXT + 10))
          assert.equal(#TEXT - 9, r:skip(#TEXT - 9))
          return TEXT:sub(1, -10) .. r:read(100)
        end,
      }
      for _, way in ipairs(ways) do
        local r, close = open(TEXT)
        assert.equal(TEXT, sources.run(way, r))
        close()
      end
    end)

    it("answers nil, message, closed once it is closed", function()
      local r, close = open(TEXT)
      sources.run(function() assert.equal("first", r:read("l")) end)
      assert.is_true(r:close())
      assert.is_true(r:close())
      fails("closed", r:read(1))
      fails("closed", r:read("l"))
      fails("closed", r:read("a"))
      fails("closed", r:read("l", "l"))
      fails("closed", r:read_some())
      fails("closed", r:peek(1))
      fails("closed", r:skip())
      fails("closed", r:copy(function() end))
      fails("closed", r:save(os.tmpname()))
      fails("closed", r:source()())
      assert.is_nil(r:length())
      assert.is_nil(r:trailers())
      assert.equal("closed", (r:status()))
      local ok, err = pcall(r:lines())
      assert.is_false(ok)
      assert.equal("closed", err.code)
      close()
    end)
  end)
end

describe("read", function()
  it("without a format reads a line", function()
    assert.equal("a", from_string("a\nb"):read())
  end)

  it("takes formats as io does, the star or more letters included", function()
    local r = from_string("a\nb\nc\nd\nrest")
    assert.same({ "a", "b\n", "c", "d\n", "rest" }, { r:read("*line", "*L", "line", "L", "*all") })
  end)

  it("stops at the first format that finds nothing", function()
    local r = from_string("one\n")
    assert.same({ n = 2, "one", nil }, table.pack(r:read("l", "l", "a")))
    assert.same({ "", "" }, { from_string(""):read("a", "a") })
  end)

  it("tells at the end of the bytes that 0 of them are not there", function()
    local r = from_string("x")
    assert.equal("", r:read(0))
    assert.equal("x", r:read(1))
    ends(r:read(0))
  end)

  it("leaves carriage returns alone", function()
    assert.equal("a\rb\r\r", from_string("a\rb\r\r\n"):read("l"))
  end)

  it("may ask for more than there can be", function()
    assert.equal("abc", from_string("abc"):read(math.maxinteger))
    assert.equal("abc", from_function(sources.pieces("abc", 1)):read(math.maxinteger))
  end)

  it("takes a whole float, and no other number", function()
    assert.equal("ab", from_string("abc"):read(2.0))
    raises("number has no integer representation", function() from_string("abc"):read(1.5) end)
  end)

  it("finds a line of a megabyte in linear time", function()
    local r = from_function(sources.pieces(("x"):rep(1 << 20) .. "\nnext", 64))
    assert.equal(1 << 20, #r:read("l"))
    assert.equal("next", r:read("l"))
  end)
end)

describe("read_some", function()
  it("gives what is at hand and waits only when there is nothing", function()
    local calls = 0
    local r = from_function(function()
      calls = calls + 1
      return calls <= 3 and "piece" .. calls or nil
    end)
    assert.equal("piece1", r:read_some())
    assert.equal(1, calls)
    assert.equal("pi", r:read_some(2))
    assert.equal("ece2", r:read_some(100))
    assert.equal(2, calls)
  end)

  it("gives at most 64 KiB at once", function()
    assert.equal(65536, #from_string(("x"):rep(200000)):read_some())
  end)

  it("of a pipe gives what has arrived", function()
    local pipe = assert(io.popen("printf one; sleep 0.3; printf two"))
    local r = reader.from_file(pipe)
    assert.equal("one", r:read(3))
    assert.equal("t", r:read_some(1))
    assert.equal("wo", r:read("a"))
    pipe:close()
  end)
end)

describe("a pipe", function()
  it("gives a line before the next one is written", function()
    local fifo = os.tmpname()
    os.remove(fifo)
    assert(os.execute("mkfifo " .. fifo))
    local writer = assert(io.popen("cat > " .. fifo, "w"))
    local r = assert(reader.from_file(fifo))
    for i = 1, 3 do -- were it to wait for more than the line, this would never end
      writer:write("line ", i, "\n")
      writer:flush()
      assert.equal("line " .. i, r:read("l"))
    end
    writer:close()
    ends(r:read("l"))
    r:close()
    os.remove(fifo)
  end)

  it("keeps what io has read ahead", function()
    local pipe = assert(io.popen("printf 'head\\nbody\\nrest'"))
    assert.equal("head", pipe:read("l"))
    assert.equal("body\nrest", reader.from_file(pipe):read("a"))
    pipe:close()
  end)
end)

describe("lines", function()
  it("iterates over lines, lines with their ends, and blocks", function()
    local function all(r, format)
      local out = {}
      for piece in r:lines(format) do out[#out + 1] = piece end
      return out
    end
    assert.same({ "a", "", "b" }, all(from_string("a\n\nb")))
    assert.same({ "a\n", "\n", "b" }, all(from_string("a\n\nb"), "L"))
    assert.same({ "a\n\n", "b" }, all(from_string("a\n\nb"), 3))
    assert.same({}, all(from_string("")))
  end)

  it("raises a failure as an object with code, status and message", function()
    local r = from_function(function() return nil, "the disk is gone", "disk" end)
    local ok, err = pcall(function() for _ in r:lines() do error("there is no line") end end)
    assert.is_false(ok)
    assert.equal("disk", err.code)
    assert.equal(500, err.status)
    assert.equal("the disk is gone", err.message)
    assert.equal("the disk is gone", tostring(err))
  end)

  it("raises the status that belongs to the code", function()
    local r = reader.chunked(from_string("zz\r\n"))
    local _, err = pcall(r:lines())
    assert.equal("bad-chunk-size", err.code)
    assert.equal(400, err.status)
    assert.is_truthy(tostring(err):find("hexadecimal", 1, true))
  end)
end)

describe("peek", function()
  it("consumes nothing and shows at most 64 KiB", function()
    local r = from_string(("x"):rep(100000) .. "y")
    assert.equal(65536, #r:peek(200000))
    assert.equal(100001, #r)
    assert.equal(100001, r:skip())
  end)

  it("shows one byte by default", function()
    assert.equal("a", from_string("abc"):peek())
  end)

  it("asks the source for no more than it needs", function()
    local calls = 0
    local r = from_function(function()
      calls = calls + 1
      return "abc"
    end)
    assert.equal("ab", r:peek(2))
    assert.equal("abcab", r:peek(5))
    assert.equal(2, calls)
  end)

  it("leaves the Reader below where the bytes are no longer its own", function()
    local below = from_string("body|next")
    local r = reader.limit(below, 5)
    assert.equal("body|", r:peek(100))
    assert.equal("body|", r:read("a"))
    assert.equal("next", below:read("a"))
  end)
end)

describe("length", function()
  it("is known of strings, files and limits, and counts down", function()
    local path = sources.file("0123456789")
    for _, r in ipairs {
      from_string("0123456789"), reader.from_file(path), reader.from_file(path, { from = 0, to = 9 }),
      reader.limit(from_string("0123456789more"), 10), reader.limit(from_string("0123456789"), 99),
    } do
      assert.equal(10, r:length())
      assert.equal(10, #r)
      r:read(3)
      r:peek(5)
      assert.equal(7, #r)
      r:skip()
      assert.equal(0, #r)
      r:close()
    end
    os.remove(path)
  end)

  it("is unknown of functions, chunked bodies and parts, until their end", function()
    for _, r in ipairs {
      from_function(sources.pieces("abc", 1)), reader.chunked(from_string(sources.chunked("abc", 2))),
      reader.limit(from_function(sources.pieces("abc", 1)), 10),
    } do
      assert.is_nil(r:length())
      assert.equal("abc", r:read("a"))
      ends(r:read(1))
      assert.equal(0, r:length())
    end
  end)
end)

describe("limit", function()
  it("ends after n bytes, or with the Reader below", function()
    local below = from_string("abcdef")
    assert.equal("abcd", reader.limit(below, 4):read("a"))
    assert.equal("ef", reader.limit(below, 4):read("a"))
    ends(reader.limit(below, 4):read(1))
    ends(reader.limit(from_string("x"), 0):read(1))
  end)

  it("lays claim to no byte before it is read", function()
    local below = from_string("abc")
    local r = reader.limit(below, 2)
    assert.equal("a", below:read(1))
    assert.equal("bc", r:read("a"))
  end)

  it("nests", function()
    local r = reader.limit(reader.limit(reader.limit(from_string("abcdef"), 5), 9), 3)
    assert.equal(3, #r)
    assert.equal("abc", r:read("a"))
  end)

  it("keeps the Reader below alive", function()
    local r = reader.limit(reader.limit(from_function(sources.pieces(("abc"):rep(10), 4)), 20), 10)
    collectgarbage()
    collectgarbage()
    assert.equal("abcabcabca", r:read("a"))
  end)
end)

describe("chunked", function()
  it("gives its trailers after the end, in order, and only those that may be", function()
    local trailer = "Z: 1\r\nContent-Length: 5\r\na: 2\r\nAuthorization: x\r\nZ: 3\r\n"
    local r = reader.chunked(from_string(sources.chunked("body", 2, trailer)))
    assert.is_nil(r:trailers())
    assert.equal("body", r:read("a"))
    for _ = 1, 2 do
      local trailers = r:trailers()
      local order = {}
      for name, value in require("partline.headers").each(trailers) do order[#order + 1] = name .. "=" .. value end
      assert.same({ "Z=1", "a=2", "Z=3" }, order)
      assert.equal("1, 3", trailers.z)
      assert.is_nil(trailers["content-length"])
      assert.is_nil(trailers.Authorization)
    end
  end)

  it("has empty trailers when none came, and none before the end or elsewhere", function()
    local r = reader.chunked(from_string("0\r\n\r\n"))
    ends(r:read(1))
    assert.same({}, r:trailers())
    assert.is_nil(from_string("x"):trailers())
  end)

  it("leaves what follows on the Reader below", function()
    local below = from_string("3\r\nabc\r\n0\r\n\r\nNEXT")
    assert.equal("abc", reader.chunked(below):read("a"))
    assert.equal("NEXT", below:read("a"))
  end)

  it("has limits that may be set", function()
    local bytes = "1;" .. ("e"):rep(50) .. "\r\nx\r\n0\r\nA: " .. ("t"):rep(50) .. "\r\n\r\n"
    local function with(limits) return reader.chunked(from_string(bytes), limits):read("a") end
    assert.equal("x", with())
    assert.equal("x", with { chunk_line = 52, chunk_ext = 51, trailer = 57 })
    fails("chunk-ext-too-large", with { chunk_line = 51 })
    fails("chunk-ext-too-large", with { chunk_ext = 50 })
    fails("trailer-too-large", with { trailer = 56 })
  end)

  it("may be lenient about white space after a size", function()
    fails("bad-chunk-size", reader.chunked(from_string("1 \r\nx\r\n0\r\n\r\n")):read("a"))
    assert.equal("x", reader.chunked(from_string("1 \r\nx\r\n0\r\n\r\n"), { lenient = true }):read("a"))
  end)

  it("repeats its failure", function()
    local r = reader.chunked(from_string("1\r\nxZZ"))
    assert.equal("x", r:read(1))
    local text = fails("bad-chunk-terminator", r:read(1))
    assert.equal(text, fails("bad-chunk-terminator", r:read("a")))
    assert.is_truthy(text:find("byte 4", 1, true), text)
    assert.equal("failed", (r:status()))
  end)
end)

describe("a body that is cut off", function()
  local cut = {
    limit = function()
      return message.read_request(from_string("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")).body
    end,
    chunked = function() return reader.chunked(from_string("5\r\n12345\r\n")) end,
    ["chunked in a chunk"] = function() return reader.chunked(from_string("9\r\n12345")) end,
    part = function()
      local form = sources.form("12345"):gsub("%-%-\r\n$", "")
      return multipart.parse(form, sources.FORM)().content
    end,
  }

  for name, open in pairs(cut) do
    it("is an error, not an end: " .. name, function()
      fails("unexpected-eof", open():read("a"))
      fails("unexpected-eof", open():skip())
      fails("unexpected-eof", open():copy(function() end))
      fails("unexpected-eof", open():read(6))
      fails("unexpected-eof", open():read("l"))
      local path = os.tmpname()
      os.remove(path)
      fails("unexpected-eof", open():save(path))
      assert.is_nil(io.open(path))
      local r = open()
      assert.equal("12345", r:read(5))
      for _ = 1, 2 do
        fails("unexpected-eof", r:read(1))
        fails("unexpected-eof", r:read_some())
        fails("unexpected-eof", r:source()())
      end
      local lines = open():lines(2)
      assert.same({ "12", "34" }, { lines(), lines() })
      local ok, err = pcall(lines)
      assert.is_false(ok)
      assert.equal("unexpected-eof", err.code)
    end)
  end
end)

describe("a source that misbehaves", function()
  it("raises: the error passes, and the Reader goes on", function()
    local calls = 0
    local r = from_function(function()
      calls = calls + 1
      if calls == 2 then error("boom") end
      return calls < 4 and "abc" or nil
    end)
    assert.equal("ab", r:read(2))
    local ok, err = pcall(r.read, r, 5)
    assert.is_false(ok)
    assert.is_truthy(err:find("boom$"))
    assert.equal("cabc", r:read("a"))
  end)

  it("gives a table: raised", function()
    local r = from_function(function() return {} end)
    local ok, err = pcall(r.read, r, 1)
    assert.is_false(ok)
    assert.is_truthy(err:find("a source must give strings or nil, not a table", 1, true))
  end)

  it("gives a number: taken as its digits", function()
    local n = 3
    assert.equal("321", from_function(function()
      n = n - 1
      return n >= 0 and n + 1 or nil
    end):read("a"))
  end)

  for name, piece in pairs { ["empty strings"] = "", ["true"] = true } do
    it("gives " .. name .. " for ever: no-progress", function()
      local calls = 0
      local r = from_function(function()
        calls = calls + 1
        return piece
      end)
      fails("no-progress", r:read(1))
      assert.is_true(calls >= 100 and calls <= 10000)
    end)
  end

  it("gives nil and a message: the failure, again and again", function()
    local r = from_function(function() return nil, "no route" end)
    for _ = 1, 2 do assert.equal("no route", fails("source-failed", r:read(1))) end
    local value, text, code = from_function(function() return nil, "no route", "unreachable" end):read(1)
    assert.same({ "no route", "unreachable" }, { text, code })
    assert.is_nil(value)
  end)

  it("gives nil and a message behind other bytes: those can still be read", function()
    local calls = 0
    local function source()
      calls = calls + 1
      if calls == 1 then return "abc" end
      return nil, "gone"
    end
    local r = from_function(source)
    fails("source-failed", r:read("a"))
    assert.equal("abc", r:read(3))
    fails("source-failed", r:read(1))
    assert.equal(2, calls)
  end)

  it("tells its message through all layers above it", function()
    local function broken() return from_function(function() return nil, "no route", "unreachable" end) end
    local layers = { reader.limit(broken(), 5), reader.chunked(broken()), reader.limit(reader.chunked(broken()), 5) }
    for _, r in ipairs(layers) do
      local _, text, code = r:read(1)
      assert.same({ "no route", "unreachable" }, { text, code })
    end
    local value, text, code = message.read_request(broken())
    assert.is_nil(value)
    assert.same({ "no route", "unreachable" }, { text, code })
    local _, err = pcall(multipart.parse(broken(), "multipart/mixed; boundary=b"))
    assert.same({ "no route", "unreachable" }, { err.message, err.code })
  end)

  it("is not asked again after its end", function()
    local calls = 0
    local r = from_function(function() calls = calls + 1 end)
    for _ = 1, 3 do ends(r:read(1)) end
    assert.equal(1, calls)
  end)

  it("may be a callable table", function()
    local next_piece = sources.pieces("abc", 2)
    assert.equal("abc", from_function(setmetatable({}, { __call = function() return next_piece() end })):read("a"))
  end)
end)

describe("from_file", function()
  local path
  before_each(function() path = sources.file("0123456789") end)
  after_each(function() os.remove(path) end)

  local function all(...)
    local r = assert(reader.from_file(...))
    local bytes = r:read("a")
    r:close()
    return bytes
  end

  it("reads from the first to the last offset, both counted from 0", function()
    assert.equal("3456789", all(path, { from = 3 }))
    assert.equal("345", all(path, { from = 3, to = 5 }))
    assert.equal("0123", all(path, { to = 3 }))
    assert.equal("0", all(path, { from = 0, to = 0 }))
    assert.equal("", all(path, { from = 5, to = 4 }))
    assert.equal("89", all(path, { from = 8, to = 99 }))
    assert.equal("", all(path, { from = 99 }))
  end)

  it("takes an open handle from where it stands, and leaves it open", function()
    local handle = io.open(path, "rb")
    handle:read(4)
    local r = reader.from_file(handle)
    assert.equal("45", r:read(2))
    r:close()
    assert.equal("file", io.type(handle))
    handle:close()
    local again = io.open(path, "rb")
    assert.equal("56", all(again, { from = 5, to = 6 }))
    again:close()
  end)

  it("closes a file it has opened, with close, <close> and the collector", function()
    local function descriptors()
      local pipe = io.popen("ls /proc/" .. sources.read_file("/proc/self/stat"):match("^%d+") .. "/fd | wc -l")
      local n = tonumber(pipe:read("a"))
      pipe:close()
      return n
    end
    if not io.open("/proc/self/stat") then return end
    collectgarbage()
    local before = descriptors()
    reader.from_file(path):close()
    do
      local r <close> = reader.from_file(path)
      assert.equal("0", r:read(1))
    end
    for _ = 1, 20 do reader.from_file(path) end
    collectgarbage()
    collectgarbage()
    assert.equal(before, descriptors())
  end)

  it("answers when there is no such file", function()
    local text = fails("read-failed", reader.from_file("/no/such/file"))
    assert.is_truthy(text:find("/no/such/file", 1, true))
  end)

  it("answers when reading fails: a folder", function()
    local r = assert(reader.from_file("/tmp"))
    fails("read-failed", r:read(1))
    r:close()
  end)

  it("answers when its owner closes the handle", function()
    local handle = io.open(path, "rb")
    local r = reader.from_file(handle)
    handle:close()
    fails("closed", r:read(1))
  end)

  it("raises on wrong use", function()
    raises("from_file", function() reader.from_file(42) end)
    raises("from_file", function() reader.from_file() end)
    raises("'from' must be a non-negative integer", function() reader.from_file(path, { from = -1 }) end)
    raises("'to' must be an integer", function() reader.from_file(path, { to = "x" }) end)
    local handle = io.open(path)
    handle:close()
    raises("closed file", function() reader.from_file(handle) end)
  end)
end)

describe("from_socket", function()
  it("leaves the socket to its owner: neither close nor the collector closes it", function()
    local a, b = sources.pair()
    do
      local r = reader.from_socket(b)
      a:send("one")
      assert.equal("one", r:read(3))
      r:close()
      reader.from_socket(b)
    end
    collectgarbage()
    collectgarbage()
    b:settimeout(1)
    a:send("two")
    assert.equal("two", b:receive(3))
    a:close()
    b:close()
  end)

  it("leaves any other object to its owner too", function()
    local closed
    reader.from_socket({
      receive = function() return nil, "closed" end, send = print, close = function() closed = true end,
    }):read("a")
    collectgarbage()
    collectgarbage()
    assert.is_nil(closed)
  end)

  it("gives what LuaSocket had read ahead first", function()
    local a, b = sources.pair()
    a:send("line\nahead")
    assert.equal("line", b:receive("*l"))
    local r = reader.from_socket(b)
    a:send(" and more")
    a:close()
    assert.equal("ahead and more", r:read("a"))
    b:close()
  end)

  it("answers closed when its owner closes the socket", function()
    local a, b = sources.pair()
    local r = reader.from_socket(b)
    b:close()
    fails("closed", r:read(1))
    a:close()
  end)

  it("gives what a peer's reset cut off as a failure", function()
    local a, b = sources.pair()
    local r = reader.from_socket(b)
    b:send("unread by a") -- data that a never reads makes its close a reset
    a:setoption("linger", { on = true, timeout = 0 })
    a:close()
    fails("read-failed", r:read(1))
    b:close()
  end)
end)

describe("LTN12", function()
  local ltn12 = require "ltn12"

  it("pumps out of a Reader", function()
    local out = {}
    local r = from_function(sources.pieces(TEXT, 10))
    assert.equal(1, ltn12.pump.all(r:source(), (ltn12.sink.table(out))))
    assert.equal(TEXT, table.concat(out))
  end)

  it("pumps into a Reader through a chain of sources", function()
    local source = ltn12.source.chain(ltn12.source.string("a\nb"), function(chunk) return chunk and chunk:upper() end)
    assert.equal("A\nB", reader.from_ltn12(source):read("a"))
    local cat = ltn12.source.cat(ltn12.source.string("one"), from_string("two"):source())
    assert.equal("onetwo", reader.from_ltn12(cat):read("a"))
  end)

  it("passes failures both ways", function()
    local r = reader.from_ltn12(ltn12.source.error("broken"))
    assert.equal("broken", fails("source-failed", r:read(1)))
    local ok, err = ltn12.pump.all(r:source(), ltn12.sink.null())
    assert.is_nil(ok)
    assert.equal("broken", err)
  end)
end)

describe("make", function()
  it("asks read_bytes for as much as it may give", function()
    local wanted
    local r = reader.make({}, { read_bytes = function(_, n)
      wanted = n
      return "x"
    end })
    r:read(1)
    assert.is_true(math.type(wanted) == "integer" and wanted > 0)
  end)

  it("passes the failures of its methods", function()
    local r = reader.make({}, { read_bytes = function() return nil, "broken", "my-code" end })
    assert.same({ n = 3, nil, "broken", "my-code" }, table.pack(r:read(1)))
  end)

  it("raises without a method to read by", function()
    raises("read_bytes", function() reader.make({}, {}) end)
    raises("read_bytes", function() reader.make({}) end)
    raises("table expected", function() reader.make({}, 5) end)
  end)
end)

describe("of", function()
  it("takes whatever holds bytes", function()
    local r = from_string("abc")
    assert.equal(r, reader.of(r))
    assert.equal("abc", reader.of("abc"):read("a"))
    assert.equal("abc", reader.of(sources.pieces("abc", 1)):read("a"))
    local path = sources.file("abc")
    local handle = io.open(path)
    assert.equal("abc", reader.of(handle):read("a"))
    handle:close()
    os.remove(path)
  end)

  it("raises where nothing can be read", function()
    raises("cannot read from a number", function() reader.of(42) end)
    raises("cannot read from a nil", function() reader.of(nil) end)
    raises("cannot read from a table", function() reader.of({}) end)
    local handle = io.tmpfile()
    handle:close()
    raises("cannot read from a closed file", function() reader.of(handle) end)
  end)
end)

describe("a Reader", function()
  it("is recognised", function()
    assert.is_true(reader.is_reader(from_string("")))
    for _, other in ipairs { "", 1, {}, io.stdout, print } do assert.is_false(reader.is_reader(other)) end
    assert.is_false(reader.is_reader(nil))
  end)

  it("shows its kind and state", function()
    local r = from_string("x")
    assert.is_truthy(tostring(r):find("^reader %(string, open%)"))
    r:read("a")
    r:read(1)
    assert.is_truthy(tostring(r):find("^reader %(string, ended%)"))
    r:close()
    assert.is_truthy(tostring(r):find("^reader %(string, closed%)"))
    local bad = reader.chunked(from_string("zz"))
    bad:read(1)
    assert.is_truthy(tostring(bad):find("^reader %(chunked, bad%-chunk%-size%)"))
  end)

  it("tells its state and how many bytes it gave", function()
    local r = from_function(sources.pieces("abcdef", 4))
    assert.same({ "open", 0 }, { r:status() })
    r:peek(3)
    assert.same({ "open", 0 }, { r:status() })
    r:read(2)
    r:skip(1)
    assert.same({ "open", 3 }, { r:status() })
    r:read("a")
    assert.same({ "ended", 6 }, { r:status() })
  end)

  it("closes at the end of a block", function()
    local kept
    do
      local r <close> = from_string("abc")
      kept = r
    end
    fails("closed", kept:read(1))
  end)

  it("closes alone: what is below it stays open", function()
    local below = from_string("abcdef")
    local r = reader.limit(below, 4)
    r:read(1)
    r:close()
    assert.equal("bcdef", below:read("a"))
    local chunks = reader.chunked(from_string("3\r\nabc\r\n0\r\n\r\n"))
    chunks:read(1)
    chunks:close()
    chunks:close()
  end)

  it("whose lower Reader is closed is closed too", function()
    local below = from_string("abcdef")
    local r, c = reader.limit(below, 4), reader.chunked(below)
    below:close()
    fails("closed", r:read(1))
    fails("closed", c:read(1))
  end)

  it("is collected with everything below it", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local below = from_function(sources.pieces("3\r\nabc\r\n0\r\n\r\n", 1))
      local r = reader.chunked(below)
      r:read(1)
      weak[below], weak[r] = true, true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("wrong use", function()
  local r = from_string("abc")

  it("raises at the caller's line", function()
    raises("size must not be negative", function() r:read(-1) end)
    raises("invalid format", function() r:read("x") end)
    raises("invalid format", function() r:read("") end)
    raises("invalid format", function() r:read("*") end)
    raises("string expected, got table", function() r:read({}) end)
    raises("bad argument #2", function() r:read(1, "z") end)
    raises("size must be positive", function() r:read_some(0) end)
    raises("size must not be negative", function() r:read_some(-1) end)
    raises("number expected, got string", function() r:read_some("x") end)
    raises("size must not be negative", function() r:peek(-1) end)
    raises("size must not be negative", function() r:skip(-1) end)
    raises("invalid format", function() r:lines("q") end)
    raises("value expected", function() r:copy() end)
    raises("not a sink", function() r:copy(true) end)
    raises("neither write nor send", function() r:copy({}) end)
    raises("size must not be negative", function() r:copy(print, -1) end)
    raises("string expected, got no value", function() r:save() end)
    raises("zero byte", function() r:save("a\0b") end)
    assert.equal("abc", r:read("a"))
  end)

  it("raises for what is no Reader", function()
    raises("partline.reader expected, got string", function() r.read("abc") end)
    raises("partline.reader expected, got no value", function() r.length() end)
    raises("partline.reader expected, got table", function() r.close({}) end)
    raises("partline.reader expected", function() reader.limit("abc", 3) end)
    raises("partline.reader expected", function() reader.chunked("abc") end)
  end)

  it("raises in constructors", function()
    raises("string expected", function() reader.from_string({}) end)
    raises("string expected", function() reader.from_string() end)
    raises("value expected", function() from_function() end)
    raises("function expected", function() from_function(42) end)
    raises("function expected", function() from_function("abc") end)
    raises("function expected", function() reader.from_ltn12({}) end)
    raises("size must not be negative", function() reader.limit(from_string(""), -1) end)
    raises("number expected", function() reader.limit(from_string("")) end)
    raises("non-negative integer", function() reader.chunked(from_string(""), { chunk_line = -1 }) end)
    raises("non-negative integer", function() reader.chunked(from_string(""), { trailer = "x" }) end)
    raises("table expected", function() reader.chunked(from_string(""), 5) end)
    raises("receive", function() reader.from_socket({}) end)
    raises("from_socket", function() reader.from_socket("x") end)
  end)
end)
