-- Reader:copy to every kind of sink, and Reader:save.

local core = require "partline.core"
local loop = require "partline.loop"
local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local check = require "spec.support.check"
local sources = require "spec.support.sources"

require "partline.connection" -- tells the Writers of plain sockets how to wait

local fails, raises = check.fails, check.raises

local BLOCK = (function() -- 65 521 bytes, a prime: its copies begin everywhere in pieces of 64 KiB
  local out, seed = {}, 1
  for i = 1, 65521 do
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    out[i] = string.char(seed >> 16 & 255)
  end
  return table.concat(out)
end)()

local TWICE = BLOCK .. BLOCK

-- The source of `total` bytes of BLOCKs; makes no string.
local function blocks(total)
  local left = total
  return reader.limit(reader.from_function(function() return BLOCK end), left)
end

-- Takes pieces and tells whether they are those of blocks(); → function(piece), function() → bytes so far.
local function verifier()
  local at = 0
  return function(piece)
    local from = at % #BLOCK
    while #piece > #BLOCK do
      assert.is_true(piece:sub(1, #BLOCK) == TWICE:sub(from + 1, from + #BLOCK), "wrong bytes at " .. at)
      piece, at = piece:sub(#BLOCK + 1), at + #BLOCK
    end
    assert.is_true(piece == TWICE:sub(from + 1, from + #piece), "wrong bytes at " .. at)
    at = at + #piece
    return true
  end, function() return at end
end

local BYTES = "first\nsecond\0\255" .. ("x"):rep(1000)

-- Each kind of sink: → sink, function() → what has arrived.
local sinks = {}

function sinks.file()
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  return file, function()
    file:close()
    local bytes = sources.read_file(path)
    os.remove(path)
    return bytes
  end
end

sinks["function"] = function()
  local out = {}
  return function(piece) out[#out + 1] = piece end, function() return table.concat(out) end
end

sinks["function that yields"] = function()
  local out = {}
  return function(piece)
    coroutine.yield()
    out[#out + 1] = piece
    coroutine.yield()
    return true
  end, function() return table.concat(out) end
end

sinks["object with write"] = function()
  local out = {}
  return { write = function(self, piece)
    self.count = (self.count or 0) + 1
    out[#out + 1] = piece
    return self
  end, send = error }, function() return table.concat(out) end
end

sinks["object with send"] = function()
  local out = {}
  return { send = function(_, piece)
    out[#out + 1] = piece
    return #piece
  end }, function() return table.concat(out) end
end

sinks["LTN12 sink"] = function()
  local sink, out = require("ltn12").sink.table()
  return sink, function() return table.concat(out) end
end

function sinks.Writer()
  local out = {}
  local w = core.writer["function"](function(bytes)
    out[#out + 1] = bytes
    return true
  end)
  return w, function()
    assert(w:flush())
    return table.concat(out)
  end
end

sinks["Writer whose function yields"] = function()
  local out = {}
  local w = core.writer["function"](function(bytes)
    coroutine.yield()
    out[#out + 1] = bytes
    return true
  end)
  return w, function()
    sources.run(function() assert(w:flush()) end)
    return table.concat(out)
  end
end

function sinks.socket()
  local a, b = sources.pair()
  a:settimeout(0)
  return a, function()
    a:close()
    local bytes, _, rest = b:receive("*a")
    b:close()
    return bytes or rest
  end
end

for name, make in pairs(sinks) do
  describe("copy to a " .. name, function()
    for kind, open in sources.each() do
      it("from a " .. kind, function()
        for _, bytes in ipairs { BYTES, "", "a" } do
          local r, close = open(bytes)
          local sink, arrived = make()
          local n = sources.run(function() return r:copy(sink) end)
          assert.equal(#bytes, n)
          assert.equal(bytes, arrived())
          close()
        end
      end)
    end

    it("of at most n bytes, the rest stays", function()
      local r = reader.from_function(sources.pieces("0123456789", 4))
      for _, step in ipairs { { 0, "" }, { 3, "012" }, { 5, "34567" }, { 100, "89" }, { 1, "" } } do
        local sink, arrived = make()
        assert.equal(#step[2], sources.run(function() return r:copy(sink, step[1]) end))
        assert.equal(step[2], arrived())
      end
    end)
  end)
end

describe("copy", function()
  it("makes no string where the sink is a file", function()
    local null = assert(io.open("/dev/null", "wb"))
    local path = sources.file(BLOCK:rep(64))
    check.makes_no_garbage(32, function()
      assert.equal(64 * #BLOCK, reader.from_file(path):copy(null))
      assert.equal(32 << 20, blocks(32 << 20):copy(null))
    end)
    os.remove(path)
    null:close()
  end)

  it("makes no string of a chunked part of a body", function()
    local chunk = ("%x\r\n%s\r\n"):format(#BLOCK, BLOCK)
    local head = '--b\r\nContent-Disposition: form-data; name="f"\r\n\r\n'
    local i = 0
    local r = reader.chunked(reader.from_function(function()
      i = i + 1
      if i == 1 then return ("%x\r\n%s\r\n"):format(#head, head) end
      if i <= 101 then return chunk end
      return i == 102 and "9\r\n\r\n--b--\r\n\r\n0\r\n\r\n" or nil
    end))
    local null = assert(io.open("/dev/null", "wb"))
    local part = multipart.parse(r, "multipart/form-data; boundary=b")()
    check.makes_no_garbage(32, function() assert.equal(100 * #BLOCK, part.content:copy(null)) end)
    null:close()
  end)

  it("moves 32 MB to a slow socket exactly, and makes no string", function()
    local total = 32000027
    local a, b = sources.pair()
    a:setoption("send-buffer-size", 65536)
    local verify, verified = verifier()
    a:settimeout(0)
    local moved
    loop.spawn(function()
      moved = blocks(total):copy(a)
      a:shutdown("send")
    end)
    loop.spawn(function()
      local r = reader.from_socket(b)
      local pieces = 0
      for piece in r:source() do
        verify(piece)
        pieces = pieces + 1
        if pieces % 64 == 0 then loop.sleep(0.001) end
      end
    end)
    loop.run()
    assert.equal(total, moved)
    assert.equal(total, verified())
    a:close()
    b:close()

    a, b = sources.pair()
    a:settimeout(0)
    check.makes_no_garbage(512, function()
      loop.spawn(function()
        assert.equal(total, blocks(total):copy(a))
        a:shutdown("send")
      end)
      local skipped
      loop.spawn(function()
        local r = reader.from_socket(b)
        repeat
          local n = assert(r:skip(1 << 20))
          skipped = (skipped or 0) + n
          loop.sleep(0)
        until n == 0
      end)
      loop.run()
      assert.equal(total, skipped)
    end)
    a:close()
    b:close()
  end)

  it("gives a function pieces of at most 64 KiB", function()
    reader.from_string(("x"):rep(200000)):copy(function(piece) assert.is_true(#piece > 0 and #piece <= 65536) end)
  end)

  local function broken() return nil, "disk full" end

  it("stops at a sink's failure: nil, its message, a code", function()
    for _, sink in ipairs { broken, { write = broken }, { send = broken } } do
      local r = reader.from_function(sources.pieces("abcdef", 2))
      assert.equal("disk full", fails("write-failed", r:copy(sink)))
      assert.equal("cdef", r:read("a"))
    end
    local value, text, code = reader.from_string("x"):copy(function() return false, "no", "my-code" end)
    assert.is_nil(value)
    assert.same({ "no", "my-code" }, { text, code })
  end)

  it("takes a sink that returns nothing for one that took all", function()
    assert.equal(3, reader.from_string("abc"):copy(function() end))
    assert.equal(3, reader.from_string("abc"):copy(function() return false end))
  end)

  it("lets a sink's error pass", function()
    local r = reader.from_function(sources.pieces("abcdef", 2))
    local ok, err = pcall(r.copy, r, function() error("boom") end)
    assert.is_false(ok)
    assert.is_truthy(err:find("boom$"))
    assert.equal("cdef", r:read("a"))
  end)

  it("tells the failure of a file: full, closed, not writable", function()
    local full = io.open("/dev/full", "wb")
    if full then
      full:setvbuf("no")
      assert.is_truthy(fails("write-failed", reader.from_string(BLOCK):copy(full)):find("space", 1, true))
      full:close()
    end
    local closed = io.tmpfile()
    closed:close()
    fails("write-failed", reader.from_string("x"):copy(closed))
    local path = sources.file("")
    local read_only = io.open(path, "rb")
    fails("write-failed", reader.from_string("x"):copy(read_only))
    read_only:close()
    os.remove(path)
  end)

  it("tells that a socket's peer is gone", function()
    local a, b = sources.pair()
    a:settimeout(0)
    b:close()
    local value, text, code = blocks(64 << 20):copy(a)
    assert.is_nil(value)
    assert.is_string(text)
    assert.equal("write-failed", code)
    a:close()
    fails("closed", reader.from_string("x"):copy(a))
  end)

  it("survives a sink that closes or reads the Reader", function()
    local r = reader.from_function(sources.pieces("abcdefgh", 2))
    fails("closed", r:copy(function() r:close() end))
    local other = reader.from_function(sources.pieces("abcdefgh", 2))
    local out = {}
    assert.equal(4, other:copy(function(piece)
      out[#out + 1] = piece
      other:read(2)
    end))
    assert.same({ "ab", "ef" }, out)
  end)

  it("raises for what is no sink", function()
    local r = reader.from_string("x")
    raises("not a sink", function() r:copy("path") end)
    raises("neither write nor send", function() r:copy({}) end)
    raises("neither write nor send", function() r:copy(r) end)
    assert.equal("x", r:read("a"))
  end)
end)

describe("save", function()
  local dir, path

  before_each(function()
    dir = os.tmpname()
    os.remove(dir)
    assert(os.execute("mkdir " .. dir))
    path = dir .. "/saved"
  end)

  after_each(function() os.execute("rm -rf " .. dir) end)

  local function files()
    local pipe = io.popen("ls -A " .. dir)
    local list = pipe:read("a")
    pipe:close()
    return list
  end

  for kind, open in sources.each() do
    it("writes a new file from a " .. kind, function()
      local r, close = open(BYTES)
      assert.equal(#BYTES, sources.run(function() return r:save(path) end))
      assert.equal(BYTES, sources.read_file(path))
      assert.equal("saved\n", files())
      close()
    end)
  end

  it("makes an empty file of nothing", function()
    assert.equal(0, reader.from_string(""):save(path))
    assert.equal("", sources.read_file(path))
  end)

  it("makes no string", function()
    check.makes_no_garbage(32, function() assert.equal(32 << 20, blocks(32 << 20):save(path)) end)
    local verify, verified = verifier()
    local r = reader.from_file(path)
    r:copy(verify)
    r:close()
    assert.equal(32 << 20, verified())
  end)

  it("replaces an existing file only when the new one is whole", function()
    local file = io.open(path, "w")
    file:write("old")
    file:close()
    local seen
    local calls = 0
    local r = reader.from_function(function()
      calls = calls + 1
      if calls == 2 then seen = sources.read_file(path) end
      return calls < 3 and "new" or nil
    end)
    assert.equal(6, r:save(path))
    assert.equal("old", seen)
    assert.equal("newnew", sources.read_file(path))
    assert.equal("saved\n", files())
  end)

  it("leaves an existing file, and no other, when it fails", function()
    local file = io.open(path, "w")
    file:write("old")
    file:close()
    fails("source-failed", reader.from_function(function() return nil, "gone" end):save(path))
    fails("unexpected-eof", reader.chunked(reader.from_string("5\r\nabc")):save(path))
    assert.equal("old", sources.read_file(path))
    assert.equal("saved\n", files())
  end)

  it("leaves nothing when it fails", function()
    local calls = 0
    fails("source-failed", reader.from_function(function()
      calls = calls + 1
      if calls < 3 then return BLOCK end
      return nil, "gone"
    end):save(path))
    assert.equal("", files())
  end)

  it("leaves nothing when the source raises, once the collector has run", function()
    local r = reader.from_function(function() error("boom") end)
    assert.is_false(pcall(r.save, r, path))
    collectgarbage()
    collectgarbage()
    assert.equal("", files())
  end)

  it("leaves nothing when its coroutine is abandoned, once the collector has run", function()
    do
      local r = reader.from_function(coroutine.yield)
      local task = coroutine.create(function() r:save(path) end)
      coroutine.resume(task)
      coroutine.resume(task, "some bytes")
      assert.is_true(#files() > 0)
    end
    collectgarbage()
    collectgarbage()
    assert.equal("", files())
  end)

  it("leaves a device a device", function()
    assert.equal(3, reader.from_string("abc"):save("/dev/null"))
    assert.is_truthy(os.execute("test -c /dev/null"))
    if io.open("/dev/full") then
      fails("write-failed", reader.from_string("abc"):save("/dev/full"))
      assert.is_truthy(os.execute("test -c /dev/full"))
    end
  end)

  it("answers where no file can be", function()
    fails("write-failed", reader.from_string("abc"):save(dir .. "/no/such/folder"))
    fails("write-failed", reader.from_string("abc"):save(dir))
    assert.equal("", files())
  end)

  it("consumes nothing when no file can be opened", function()
    local r = reader.from_string("abc")
    r:save(dir .. "/no/folder")
    assert.equal("abc", r:read("a"))
  end)

  it("saves the parts of a request one after the other", function()
    local body = '--b\r\nContent-Disposition: form-data; name="a"; filename="1"\r\n\r\none\r\n'
      .. '--b\r\nContent-Disposition: form-data; name="c"; filename="2"\r\n\r\ntwo\r\n--b--\r\n'
    local request = message.read_request(reader.from_string(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: " .. #body
      .. "\r\n\r\n" .. body))
    for part in request:parts() do assert.equal(3, part.content:save(dir .. "/" .. part.filename)) end
    assert.equal("one", sources.read_file(dir .. "/1"))
    assert.equal("two", sources.read_file(dir .. "/2"))
  end)
end)
