-- Waiting: where a read may yield, what an abandoned one leaves, several coroutines on one Reader, timeouts.

local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local check = require "spec.support.check"
local sources = require "spec.support.sources"

local fails, throws = check.fails, check.throws

-- Each operation that may wait: its bytes, and what it gives of a Reader over them.
local operations = {
  read = { "abcdef", function(r) return r:read(4) end, "abcd" },
  ["read a line"] = { "one\ntwo", function(r) return r:read("l") end, "one" },
  ["read all"] = { "abcdef", function(r) return r:read("a") end, "abcdef" },
  ["read several"] = { "ab\ncd\nef", function(r)
    local a, b, c = r:read("l", 1, "a")
    return a .. "|" .. b .. "|" .. c
  end, "ab|c|d\nef" },
  read_some = { "a", function(r) return r:read_some() end, "a" },
  peek = { "abcdef", function(r) return r:peek(5) end, "abcde" },
  skip = { "abcdef", function(r) return r:skip() end, 6 },
  lines = { "a\nb\n", function(r)
    local out = {}
    for line in r:lines() do out[#out + 1] = line end
    return table.concat(out, "|")
  end, "a|b" },
  source = { "abc", function(r)
    local out = {}
    for piece in r:source() do out[#out + 1] = piece end
    return table.concat(out)
  end, "abc" },
  copy = { "abcdef", function(r)
    local out = {}
    assert.equal(6, r:copy(function(piece)
      coroutine.yield()
      out[#out + 1] = piece
    end))
    return table.concat(out)
  end, "abcdef" },
  save = { "abcdef", function(r)
    local path = os.tmpname()
    assert.equal(6, r:save(path))
    local bytes = sources.read_file(path)
    os.remove(path)
    return bytes
  end, "abcdef" },
  parts = { sources.form("content"), function(r)
    local out = {}
    for part in multipart.parse(r, sources.FORM) do out[#out + 1] = part.name .. "=" .. part.content:read("a") end
    return table.concat(out)
  end, "f=content" },
  request = { "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", function(r) return message.read_request(r).target end, "/x" },
  response = { "HTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n", function(r)
    return message.read_response(r).status
  end, 201 },
  chunked = { "3\r\nabc\r\n0\r\n\r\n", function(r) return reader.chunked(r):read("a") end, "abc" },
}

-- Each place from which Lua lets a C function yield; → what f gives there.
local places = {
  directly = function(f) return f() end,
  ["under pcall"] = function(f)
    local ok, value = pcall(f)
    assert(ok, value)
    return value
  end,
  ["under xpcall"] = function(f)
    local ok, value = xpcall(f, debug.traceback)
    assert(ok, value)
    return value
  end,
  ["in an iterator"] = function(f)
    local done, last
    for value in function()
      if done then return nil end
      done = true
      return f()
    end do
      last = value
    end
    return last
  end,
  ["in __index"] = function(f) return setmetatable({}, { __index = f }).key end,
  ["in __call"] = function(f) return setmetatable({}, { __call = f })() end,
  ["in __add"] = function(f) return setmetatable({}, { __add = f }) + 1 end,
  ["in __lt"] = function(f)
    local value
    local object = setmetatable({}, { __lt = function() value = f() return true end })
    return object < object and value
  end,
  ["in __close"] = function(f)
    local value
    do
      local guard <close> = setmetatable({}, { __close = function() value = f() end })
      assert(guard)
    end
    return value
  end,
  ["in coroutine.wrap"] = function(f)
    local step = coroutine.wrap(function() return "done", f() end)
    local said, value
    repeat said, value = step() until said == "done"
    return value
  end,
}

for place, within in pairs(places) do
  describe("waiting " .. place, function()
    for name, operation in pairs(operations) do
      it("in " .. name, function()
        local bytes, f, want = table.unpack(operation)
        local yields = 0
        local r = reader.from_function(sources.pieces(bytes, 1, function()
          yields = yields + 1
          coroutine.yield()
        end))
        assert.equal(want, sources.run(within, function() return f(r) end))
        assert.is_true(yields > 0)
      end)
    end
  end)
end

describe("a method that pcall calls itself", function()
  it("may wait", function()
    local r = reader.from_function(sources.pieces("abcd", 1, coroutine.yield))
    assert.same({ true, "abc" }, { sources.run(function() return pcall(r.read, r, 3) end) })
  end)
end)

describe("outside of every coroutine", function()
  it("a source that yields raises as Lua does", function()
    local r = reader.from_function(coroutine.yield)
    local ok, err
    local thread = coroutine.running()
    if select(2, coroutine.running()) then ok, err = pcall(r.read, r, 1) else return assert.is_thread(thread) end
    assert.is_false(ok)
    assert.is_truthy(err:find("outside a coroutine", 1, true))
  end)
end)

describe("what yields pass through", function()
  it("is the source's own: values go out and come in", function()
    local r = reader.from_function(function() return coroutine.yield("wanted", 1) end)
    local task = coroutine.wrap(function() return r:read(5) end)
    assert.same({ "wanted", 1 }, { task() })
    assert.same({ "wanted", 1 }, { task("ab") })
    assert.equal("abcde", task("cdefg"))
  end)

  it("works through several schedulers, one in another", function()
    local r = reader.from_function(sources.pieces("abc", 1, coroutine.yield))
    assert.equal("abc", sources.run(function() return sources.run(function() return r:read("a") end) end))
  end)
end)

describe("an abandoned coroutine", function()
  for name, operation in pairs(operations) do
    it("leaves nothing behind: " .. name, function()
      local weak = setmetatable({}, { __mode = "k" })
      do
        local source = sources.pieces(operation[1], 1, coroutine.yield)
        local r = reader.from_function(source)
        local task = coroutine.create(operation[2])
        coroutine.resume(task, r)
        assert.equal("suspended", coroutine.status(task))
        weak[source], weak[r], weak[task] = true, true, true
      end
      collectgarbage()
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(weak))
    end)
  end

  it("that is closed releases its Reader for others", function()
    local r = reader.from_function(sources.pieces("abcdef", 1, coroutine.yield))
    local task = coroutine.create(function() return r:read(100) end)
    for _ = 1, 3 do coroutine.resume(task) end
    assert.is_true(coroutine.close(task))
    assert.equal("abcdef", sources.run(function() return r:read("a") end))
  end)

  it("that closes its Reader by <close> closes it", function()
    local kept
    local task = coroutine.create(function()
      local r <close> = reader.from_function(coroutine.yield)
      kept = r
      r:read(1)
    end)
    coroutine.resume(task)
    coroutine.close(task)
    fails("closed", kept:read(1))
  end)
end)

describe("two coroutines on one Reader", function()
  -- Resumes the tasks in turn until all are over.
  local function together(...)
    local tasks, results = {}, {}
    for i, f in ipairs { ... } do tasks[i] = coroutine.create(f) end
    local alive = true
    while alive do
      alive = false
      for i, task in ipairs(tasks) do
        if coroutine.status(task) == "suspended" then
          alive = true
          local ok, value = coroutine.resume(task)
          if not ok then error(value, 0) end
          if coroutine.status(task) == "dead" then results[i] = value end
        end
      end
    end
    return results
  end

  it("get each byte once", function()
    for size = 1, 7 do
      local bytes = ("0123456789"):rep(50)
      local r = reader.from_function(sources.pieces(bytes, size, coroutine.yield))
      local out = {}
      local function take()
        for piece in r:source() do out[#out + 1] = piece end
      end
      local function lines()
        for piece in r:lines(4) do out[#out + 1] = piece end
      end
      together(take, lines, take)
      assert.equal(#bytes, #table.concat(out))
    end
  end)

  it("stay apart when one closes it", function()
    local r = reader.from_function(sources.pieces("abcdef", 1, coroutine.yield))
    local results = together(
      function() return select(3, r:read("a")) end,
      function()
        coroutine.yield()
        coroutine.yield()
        r:close()
      end)
    assert.equal("closed", results[1])
  end)

  -- One reads something that is presented again while it grows; another takes its beginning away.
  local growing = {
    ["the head of a request"] = {
      "GET / HTTP/1.1\r\nHost: a\r\nLong: ", function(r) return message.read_request(r) end,
    },
    ["the head of a response"] = {
      "HTTP/1.1 200 OK\r\nA: b\r\nLong: ", function(r) return message.read_response(r) end,
    },
    ["trailers"] = { "0\r\nLong: ", function(r) return reader.chunked(r):read("a") end },
    ["the head of a part"] = {
      "--b\r\nContent-Disposition: form-data; name=a\r\nLong: ",
      function(r) return pcall(multipart.parse(r, "multipart/form-data; boundary=b")) end,
    },
    ["a line"] = { "Long: ", function(r) return r:read("l") end },
    ["all"] = { "Long: ", function(r) return r:read("a") end },
    ["a delimiter"] = {
      "--b\r\nContent-Disposition: form-data; name=a\r\n\r\ncontent\r\n--",
      function(r)
        return pcall(function()
          for part in multipart.parse(r, "multipart/form-data; boundary=b") do part.content:read("a") end
        end)
      end,
    },
  }

  for name, case in pairs(growing) do
    it("may not lead one past the end of its memory: " .. name, function()
      for taken = 1, 40, 3 do
        local pieces = { case[1], ("v"):rep(3000), "x\r\nB: c\r\n\r\n", "more\r\n\r\n" }
        local i = 0
        local r = reader.from_function(function()
          i = i + 1
          if i > 1 then coroutine.yield() end
          return pieces[i]
        end)
        together(
          function() case[2](r) end,
          function() r:read(taken * 70) end,
          function() r:skip(1) end)
        assert.is_true(i >= 2)
      end
    end)
  end

  it("may use one parser of heads for two connections", function()
    local parser = message.parser()
    local function connection(target, size)
      local bytes = ("GET %s HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n"):format(target, target:rep(20))
      local r = reader.from_function(sources.pieces(bytes, size, coroutine.yield))
      return function()
        local request = assert(message.next_request(r, parser))
        return request.target .. " " .. request.headers.x
      end
    end
    local results = together(connection("/first", 7), connection("/second-one", 3), connection("/3", 50))
    assert.same({ "/first " .. ("/first"):rep(20), "/second-one " .. ("/second-one"):rep(20), "/3 " .. ("/3"):rep(20) },
      results)
  end)
end)

describe("a timeout", function()
  local a, b, r

  before_each(function()
    a, b = sources.pair()
    r = reader.from_socket(b, { timeout = 0.02 })
  end)

  after_each(function()
    a:close()
    b:close()
  end)

  it("is told once, and the next read tries again without a loss", function()
    a:send("ab")
    fails("timeout", r:read(4))
    fails("timeout", r:read("l"))
    fails("timeout", r:read("a"))
    fails("timeout", r:peek(3))
    assert.equal("open", (r:status()))
    a:send("cd\nrest")
    assert.equal("abcd", r:read(4))
    assert.equal("", r:read("l"))
    assert.equal("re", r:read(2))
    a:close()
    assert.equal("st", r:read("a"))
    assert.is_nil(r:read(1))
  end)

  it("costs nothing of what the formats before it have read", function()
    a:send("one\ntwo")
    assert.same({ "one", nil, "timeout", "timeout", n = 4 }, table.pack(r:read("l", "l")))
    a:send("\nthree")
    assert.same({ "two", nil, "timeout", "timeout", n = 4 }, table.pack(r:read("l", 6, "a")))
    a:close()
    assert.same({ "three", "", nil, n = 3 }, table.pack(r:read("l", "a", 1)))
  end)

  it("has status 408", function()
    assert.equal(408, require("partline").errors.timeout.status)
  end)

  it("passes through limits and chunked coding", function()
    local chunked = reader.chunked(r)
    local limited = reader.limit(chunked, 4)
    a:send("3\r\nab")
    fails("timeout", limited:read(4))
    assert.equal("open", (limited:status()))
    a:send("c\r\n")
    fails("timeout", limited:read(4))
    a:send("2\r\nde\r\n0\r\n")
    assert.equal("abcd", limited:read(4))
    assert.equal("e", chunked:read(1))
    fails("timeout", chunked:read(1))
    a:send("A: b\r\n\r\n")
    assert.is_nil(chunked:read(1))
    assert.equal("b", chunked:trailers().a)
  end)

  it("passes through parts: the iterator raises it, and may be called again", function()
    local parts = multipart.parse(r, "multipart/form-data; boundary=b")
    throws("timeout", parts)
    a:send('--b\r\nContent-Disposition: form-data; name="x"\r\n')
    throws("timeout", parts)
    a:send("\r\ncont")
    local part = parts()
    assert.equal("x", part.name)
    fails("timeout", part.content:read(7))
    a:send("ent\r\n--b")
    fails("timeout", part.content:read("a"))
    assert.equal("content", part.content:read(7))
    fails("timeout", part.content:read(1))
    throws("timeout", parts)
    a:send("--")
    assert.is_nil(parts())
  end)

  it("passes through heads, which are then read from their beginning", function()
    fails("timeout", message.read_request(r))
    a:send("GET / HTTP/1.1\r\nHo")
    fails("timeout", message.read_request(r))
    a:send("st: a\r\n\r\n")
    assert.equal("a", message.read_request(r).headers.host)
  end)

  it("of lines is raised, and they go on", function()
    local lines = r:lines()
    a:send("one\ntw")
    assert.equal("one", lines())
    throws("timeout", lines)
    a:send("o\n")
    assert.equal("two", lines())
  end)

  it("ends copy with what has come moved, and skip", function()
    local out = {}
    local function sink(piece) out[#out + 1] = piece end
    a:send("abc")
    fails("timeout", r:copy(sink))
    a:send("def")
    assert.equal(2, r:copy(sink, 2))
    assert.equal("abcde", table.concat(out))
    fails("timeout", r:skip(5))
  end)

  it("of save leaves no file", function()
    local path = os.tmpname()
    os.remove(path)
    a:send("abc")
    fails("timeout", r:save(path))
    assert.is_nil(sources.read_file(path))
  end)

  it("comes only when nothing has come for so long", function()
    local loop = require "partline.loop"
    local patient = reader.from_socket(b, { timeout = 0.1 })
    local got
    loop.spawn(function() got = patient:read(10) end)
    loop.spawn(function()
      for i = 0, 9 do
        a:send(tostring(i))
        loop.sleep(0.02)
      end
    end)
    loop.run()
    assert.equal("0123456789", got)
  end)

  it("of a function's source may be tried again too", function()
    local answers = { { "ab" }, { nil, "slow", "timeout" }, { "cd" } }
    local i = 0
    local slow = reader.from_function(function()
      i = i + 1
      return table.unpack(answers[i] or {}, 1, 3)
    end)
    fails("timeout", slow:read(4))
    assert.equal("abcd", slow:read(4))
    assert.is_nil(slow:read(1))
  end)
end)
