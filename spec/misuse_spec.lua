-- Whatever a program does to the objects of the C module, short of the debug library, it gets an error or an answer:
-- never a crash. What goes wrong here shows under `make asan` and `make valgrind`.

local core = require "partline.core"

local reader, head, multipart, text, writer, poll = core.reader, core.head, core.multipart, core.text, core.writer,
  core.poll

-- As a program with the debug library could get them.
local getmetatable = debug.getmetatable

local slow = os.getenv("PARTLINE_UNDER") == "valgrind"

local form = "--b\r\nContent-Disposition: form-data; name=a\r\nX: one\r\n two\r\n\r\nabcdef\r\n"
  .. "--b\r\nContent-Disposition: form-data; name=b\r\n\r\nghi\r\n--b--\r\n"
local request = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nA: c\r\n\r\n"
local chunked = "5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n"

-- The function that serves plain requests, and what it shares with its server.
local function serve_of(handler)
  return head.server(head.new(), true, handler or function() return "hi" end, function(err) return err end, {})
end

local function closed(object)
  object:close()
  return object
end

local function parser_of(bytes)
  local p = head.new()
  assert(p:read(reader.string(bytes), "request"))
  return p
end

-- Finite: many functions read to the end.
local function pieces(...)
  local list, i = { ... }, 0
  return function()
    i = i + 1
    return list[i]
  end
end

-- The error object's metatable and that of the closer of an iterator are met with in no other way.
local function meta_of_error()
  local _, e = pcall(text.raise, "message", "closed")
  return getmetatable(e)
end

-- One of each, anew, since whoever gets them may use them up. Strings are no path that can be written to.
local function objects()
  local step, _, _, closer = multipart.parts(reader.string(form), "b", true)
  local part = step()
  local list = {
    reader.string("line\nbytes"), closed(reader.string("x")), part.content, part.headers, step, closer,
    reader.chunked(reader.string(chunked)), reader.limit(reader.string("abc"), 2),
    reader["function"](pieces("one", "two\n", "three")), reader["function"](error),
    reader.file(io.tmpfile(), -1, true), reader.socket(nil, -1, function() return nil, "no", "timeout" end),
    writer["function"](function() return true end), closed(writer["function"](print)),
    writer.socket(nil, -1, function() return nil, "no", "timeout" end),
    poll.new(), closed(poll.new("poll")), head.new(), parser_of(request), head.wrap {}, io.tmpfile(),
    select(2, serve_of()),
    setmetatable({}, { __index = error, __tostring = error, __len = error, __call = error }),
    setmetatable({}, getmetatable(part.content)), setmetatable({}, getmetatable(part.headers)),
    assert(head.new():read(reader.string(request), "request")), coroutine.create(print),
    function() end, error, {}, { "a", "b" }, "", "/dev/null/x", "l",
    0, 1, -1, 3, math.maxinteger, math.mininteger, 1.5, 1e300, -1e300, 0 / 0, true, false,
  }
  return list
end

-- Every C function there is: of the module, methods, metamethods.
local function functions()
  local found = {}
  local function add(name, t)
    for key, f in pairs(t) do
      if type(f) == "function" then found[name .. "." .. key] = f
      elseif type(f) == "table" and key ~= "__index" then add(name .. "." .. key, f) end
    end
    if type(rawget(t, "__index")) == "table" then add(name, t.__index) end
  end
  add("core", core)
  local _, _, _, closer = multipart.parts(reader.string(form), "b", true)
  for name, object in pairs { reader = reader.string(""), writer = writer["function"](print), poller = poll.new(),
    head = head.new(), fields = head.wrap {}, closer = closer, lane = select(2, serve_of()) } do
    add(name, getmetatable(object))
  end
  local m = assert(head.new():read(reader.string(request), "request"))
  for name, t in pairs { error = meta_of_error(), message = getmetatable(m), received = getmetatable(m.headers) } do
    add(name, t)
  end
  found["parts"] = multipart.parts(reader.string(form), "b", true)
  found["serve"] = serve_of()
  found["lines"] = reader.string("a\nb"):lines()
  found["source"] = reader.string("abc"):source()
  for _, waits in ipairs { "core.poll.sleep", "core.poll.wait_until", "poller.wait" } do found[waits] = nil end
  found["core.writer.set_wait"] = nil -- for the whole program
  found["reader.save"] = nil -- numbers are paths, too
  local names = {}
  for name in pairs(found) do names[#names + 1] = name end
  table.sort(names)
  return names, found
end

-- In a coroutine of its own, as a source may be a function that yields.
local function try(f, ...)
  local co = coroutine.create(f)
  local ok = coroutine.resume(co, ...)
  for _ = 1, 3 do
    if not ok or coroutine.status(co) == "dead" then break end
    ok = coroutine.resume(co, ...)
  end
end

describe("what serve holds of half a head", function()
  it("is its own, whatever else it is given", function()
    local socket = require "socket"
    local listener = assert(socket.bind("127.0.0.1", 0))
    local host, port = listener:getsockname()
    local s = assert(socket.connect(host, port))
    local wait = function() return nil, "no", "timeout" end
    local r, w = reader.socket(s, s:getfd(), wait, 0), writer.socket(s, s:getfd(), wait, 0)
    local serve, long = serve_of(), {}
    for i = 1, 10000 do long[i] = i end
    for _, wrong in ipairs { long, ("x"):rep(10000), 5, true, print, r, w, head.new(), io.tmpfile(), poll.new() } do
      assert.has_error(function() serve(r, w, wrong, true) end)
    end
    local peer = assert(listener:accept())
    peer:send("GET / HT")
    poll.wait_until(s:getfd(), "r", poll.now() + 5)
    local what, held = serve(r, w, nil, true)
    assert.is_false(what)
    assert.has_error(function() serve_of()(r, w, held, true) end) -- another one's
    peer:send("TP/1.0\r\n\r\n")
    poll.wait_until(s:getfd(), "r", poll.now() + 5)
    assert.equal("/", serve(r, w, held, true).target)
    for _, each in ipairs { s, peer, listener } do each:close() end
  end)
end)

describe("any function", function()
  local names, found = functions()

  it("takes anything as its arguments", function()
    assert.is_true(#names > 80, "#" .. #names)
    for _, name in ipairs(names) do
      local f = found[name]
      try(f)
      for _, x in ipairs(objects()) do
        try(f, x)
        try(f, nil, x)
        try(f, x, nil, nil, x, x, x)
      end
    end
  end)

  it("takes anything behind an object of each kind", function()
    local turn, step = 0, slow and 60 or 5
    for _, name in ipairs(names) do
      local f, all = found[name], objects()
      for _, x in ipairs(objects()) do
        for _, y in ipairs(all) do
          turn = turn + 1
          if turn % step == 0 then try(f, x, y) end
          if turn % step == 1 then try(f, x, y, y) end
        end
      end
    end
  end)

  it("takes thousands of arguments", function()
    local many = {}
    for n in pairs { [255] = 1, [1000] = 1, [30000] = 1 } do
      for i = 1, n do many[i] = 1 end
      for _, name in ipairs(names) do
        try(found[name], table.unpack(many, 1, n))
        for i, x in ipairs(objects()) do
          local chosen = i % 5 == #name % 5 and type(x) == "userdata" and not slow
          if chosen then try(found[name], x, table.unpack(many, 1, n)) end
        end
      end
    end
    local formats = {}
    for i = 1, 10000 do formats[i] = 1 end
    assert.equal(10000, select("#", reader.string(("x"):rep(20000)):read(table.unpack(formats))))
  end)

  it("takes its own metatable's functions with tables that carry it", function()
    for _, object in ipairs(objects()) do
      local mt = getmetatable(object)
      if type(object) == "userdata" and mt then
        local fake = setmetatable({}, mt)
        for _, name in ipairs { "read", "close", "write", "wait", "copy" } do
          pcall(function() return fake[name](fake, 1) end)
        end
        pcall(tostring, fake)
        pcall(function() return #fake end)
      end
    end
    collectgarbage()
  end)
end)

describe("a reader over others", function()
  it("raises rather than to use up the C stack", function()
    local r = reader.string(("x"):rep(100))
    local ok, message = pcall(function()
      for _ = 1, 1000000 do r = reader.limit(r, 50) end
    end)
    assert.is_false(ok)
    assert.is_truthy(message:find("readers over each other", 1, true))
    assert.equal("x", r:read(1))
    assert.equal(49, r:skip())
    assert.is_false(pcall(reader.chunked, r))
  end)

  it("knows that the one below was closed, read or ended by somebody else", function()
    for _, touch in ipairs {
      function(up) up:close() end, function(up) up:read(3) end, function(up) up:read("a") end,
      function(up) up:peek(8) end, function(up) up:close() up:release() end,
    } do
      for _, size in ipairs { 1, 4, 100 } do
        local up = reader.string(chunked)
        local r, l = reader.chunked(up), reader.limit(up, 20)
        local step, _, _, closer = multipart.parts(reader.limit(reader.string(form), 1000), "b", true)
        local part = step()
        pcall(r.peek, r, size)
        pcall(l.peek, l, size)
        part.content:peek(size)
        touch(up)
        touch(part.content)
        for _, x in ipairs { r, l, part.content } do
          x:read(size)
          x:read("a")
          x:trailers()
        end
        pcall(step)
        getmetatable(closer).__gc(closer)
        part.content:read(1)
        assert.is_false((pcall(step)))
      end
    end
  end)

  it("forgets its trailers when it is closed", function()
    local r = reader.chunked(reader.string(chunked))
    assert.equal("hello", r:read("a"))
    assert.equal("b", r:trailers().a)
    r:close()
    assert.is_nil(r:trailers())
    r:release()
    assert.is_nil(next(r:trailers() or {}))
  end)
end)

describe("a source", function()
  -- Each kind of read over a source that does something to the very reader.
  local function over(deed)
    local r, up, step, closer
    local turn = 0
    local function source()
      turn = turn + 1
      if turn % 2 == 0 then deed(r, up, step, closer) end
      return turn < 40 and ("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n"):sub(turn, turn) or nil
    end
    local reads = {
      function() return r:read(30) end, function() return r:read("l", 5, "a") end, function() return r:read_some() end,
      function() return r:peek(30) end, function() return r:skip() end, function() return r:copy(function() end) end,
      function() return r:copy(writer["function"](function() return true end)) end,
      function() for _ in r:lines() do end end, function() for _ in r:source() do end end,
      function() return head.new():read(r, "request") end, function() return step() end,
      function() local part = step() step() return part.content:read("a") end,
    }
    for _, read in ipairs(reads) do
      for _, wrap in ipairs {
        function(x) return x end, function(x) return reader.limit(x, 1000) end, reader.chunked,
      } do
        turn = 0
        up = reader["function"](source)
        r = wrap(up)
        local _
        step, _, _, closer = multipart.parts(r, "b", true)
        pcall(read)
      end
    end
  end

  it("may close the reader", function()
    over(function(r) r:close() end)
    over(function(_, up) up:close() end)
    over(function(_, _, _, closer) getmetatable(closer).__close(closer) end)
    over(function(_, _, _, closer) getmetatable(closer).__gc(closer) end)
  end)

  it("may close the reader and open it again", function()
    over(function(r) r:close():release() end)
    over(function(r) r:close() r:release() end)
    over(function(_, up) up:close() up:release() end)
  end)

  it("may read the reader", function()
    over(function(r) r:read(1) end)
    over(function(r) r:peek(100) end)
    over(function(_, up) up:read(2) end)
    over(function(_, up) up:read("a") end)
    over(function(_, _, step) step() end)
    over(function(r) r:lines()() end)
  end)

  it("may collect garbage and raise", function()
    over(function() collectgarbage() end)
    over(function() error("no") end)
    over(error)
  end)

  it("gives a part's bytes to one coroutine while another moves on", function()
    local at = 0
    local step = multipart.parts(reader["function"](function()
      coroutine.yield()
      at = at + 1
      return at <= #form and form:sub(at, at) or nil
    end), "b", true)
    local codes = {}
    local function read_part()
      local part = step()
      local _, _, code = part.content:read("a")
      codes[#codes + 1] = tostring(code)
    end
    local one, two = coroutine.create(read_part), coroutine.create(read_part)
    for _ = 1, 68 do coroutine.resume(one) end -- in the content
    while coroutine.status(two) ~= "dead" do coroutine.resume(two) end
    coroutine.resume(one)
    assert.same({ "nil", "stale-part" }, codes)
  end)

  it("gives bytes to two coroutines", function()
    for _, wrap in ipairs { function(x) return x end, reader.chunked, function(x) return reader.limit(x, 1000) end } do
      local r = wrap(reader["function"](coroutine.yield))
      local tasks = {}
      for i = 1, 4 do
        tasks[i] = coroutine.create(function()
          for _ = 1, 200 do
            r:read(i)
            r:read("l")
            head.new():read(r, "request")
            r:peek(20)
          end
        end)
      end
      for i = 1, 400 do
        local co = tasks[i % 4 + 1]
        local at = i % #request + 1
        if coroutine.status(co) ~= "dead" then coroutine.resume(co, request:sub(at, at + i % 3)) end
      end
      r:close()
      for i = 1, 4 do coroutine.resume(tasks[i], "more") end
    end
  end)
end)

describe("a writer", function()
  it("may be closed, written and flushed by its own function", function()
    for _, deed in ipairs {
      function(w) w:close() end, function(w) w:write("x") end, function(w) w:discard() end,
      function(w) w:send("x", "y") end, function(w) w:write(("x"):rep(40000)) end, function(w) w:flush() end,
    } do
      local w, n = nil, 0
      w = writer["function"](function()
        n = n + 1
        if n < 20 then deed(w) end
        return true
      end)
      pcall(w.write, w, ("a"):rep(20000), ("b"):rep(40000), "c")
      pcall(w.flush, w)
      local r = reader.string(("y"):rep(100000))
      pcall(r.copy, r, w)
    end
  end)
end)

describe("a table of fields", function()
  it("shows nothing of what it shares with others", function()
    local p = head.new()
    local m = assert(p:read(reader.string(request), "request"))
    for _, h in ipairs { m.headers, head.wrap {} } do
      assert.equal("partline.headers", _G.getmetatable(h))
      assert.is_false(pcall(setmetatable, h, {}))
    end
  end)

  it("bears that somebody changes its metatable", function()
    local p = head.new()
    local function fields(value)
      local bytes = "GET / HTTP/1.1\r\nHost: h\r\nA: " .. value:rep(100) .. "\r\n\r\n"
      return assert(p:read(reader.string(bytes), "request")).headers
    end
    for _, value in ipairs { false, 1, ("x"):rep(100), ("y"):rep(100), {} } do
      for i = 0, 5 do
        pcall(function() getmetatable(fields("x"))[i] = value or nil end)
        collectgarbage()
        pcall(fields, "x")
        pcall(fields, "y")
        pcall(function() head.order(fields("x")) end)
      end
    end
  end)
end)

describe("a finaliser", function()
  -- Runs f while finalisers keep calling touch.
  local function under_finalisers(touch, f, times)
    local live = true
    local function arm()
      setmetatable({}, { __gc = function()
        if not live then return end
        pcall(touch)
        arm()
      end })
    end
    local mode = collectgarbage("generational")
    arm()
    times = (times or 1) * (slow and 3 or 30)
    for _ = 1, times do
      pcall(f)
      for i = 1, 20 do tostring(i + 0.5) end
    end
    collectgarbage(mode)
    collectgarbage("incremental", 1, 1000)
    for _ = 1, times do pcall(f) end
    live = false
    collectgarbage("incremental", 200, 100)
  end

  local big = ("0123456789"):rep(25000)

  it("may use the reader whose bytes become a string", function()
    for _, make in ipairs {
      function() return reader.string(big) end,
      function() return reader.limit(reader.string(big), 200000) end,
      function()
        local up = reader["function"](pieces(big, big, big))
        up:peek(1)
        return reader.limit(up, 600000), up
      end,
      function()
        local up = reader.string(("%x\r\n%s\r\n0\r\n\r\n"):format(#big, big))
        return reader.chunked(up), up
      end,
    } do
      local r, up
      for _, touch in ipairs {
        function() (up or r):read(200000) end, function() r:close() end, function() r:close() r:release() end,
        function() if up then up:close() end end, function() r:peek(60000) end, function() r:skip(60000) end,
        function() r:preload("x") end,
      } do
        under_finalisers(touch, function()
          r, up = make()
          for _ = 1, 5 do r:read(60000) end
          r:read("l", "a")
          r, up = make()
          r:copy(function() end)
          r, up = make()
          for _ in r:source() do end
        end)
      end
    end
  end)

  local function head_of(fields, size)
    local lines = { "GET / HTTP/1.1\r\nHost: h\r\n" }
    for i = 1, fields do lines[i + 1] = ("F%d: %s\r\n"):format(i % 50, ("v"):rep(size)) end
    return table.concat(lines) .. "\r\n"
  end

  it("may use the parser whose fields become a table", function()
    local short, long = head_of(40, 5), head_of(90, 150)
    local p, whole = head.new(), 0
    under_finalisers(function() p:read(reader.string(long), "request") end, function()
      local m = assert(p:read(reader.string(short), "request"))
      assert(m.headers.F39 == "vvvvv")
      assert(#head.order(m.headers) == 41)
      whole = whole + 1
    end, 10)
    assert.equal(slow and 60 or 600, whole)
  end)

  it("may use the iterator whose part becomes a table", function()
    local step, body, closer
    local parts = ("--b\r\n%s--b\r\n%s--b--"):format(
      head_of(10, 10):gsub("^.-\n", ""), head_of(15, 400):gsub("^.-\n", ""))
    for _, touch in ipairs {
      function() step() end, function() body:read(10) end, function() getmetatable(closer).__gc(closer) end,
    } do
      under_finalisers(touch, function()
        body = reader.string(parts)
        local _
        step, _, _, closer = multipart.parts(body, "b", false)
        for part in step do part.content:read("a") end
      end, 10)
    end
  end)

  it("may close the decoder whose trailers become a table", function()
    local r
    local trailers = head_of(40, 20):match("\n(.*)")
    under_finalisers(function() r:close() end, function()
      r = reader.chunked(reader.string("0\r\n" .. trailers))
      r:read("a")
      r:trailers()
    end, 30)
  end)

  it("may close and write the writer", function()
    local w
    for _, touch in ipairs { function() w:close() end, function() w:write("x") end, function() w:flush() end } do
      under_finalisers(touch, function()
        w = writer["function"](function() return true end)
        w:write(big, "x", big)
        w:flush()
        reader.string(big):copy(w)
      end)
    end
  end)

  it("may use what was finalised before it", function()
    local script = [[
      local core = require "partline.core"
      local all = {}
      local last = setmetatable({}, { __gc = function()
        for _, x in ipairs(all) do
          for _, name in ipairs { "release", "preload", "peek", "read", "write", "flush", "attach", "want", "copy",
            "close", "trailers", "length", "status", "limits", "on_close", "on_wait", "idle", "discard", "fd" } do
            pcall(function() return x[name](x, (name == "copy" or name == "on_close") and print or 1, "r") end)
          end
          pcall(x.preload, x, "bytes")
          pcall(tostring, x)
        end
        pcall(all.step)
        pcall(function() return all.part.content:peek(10) end)
      end })
      local up = core.reader.string(("x"):rep(100))
      local step, _, _, closer = core.multipart.parts(core.reader.string(%q), "b", true)
      all.step, all.part = step, step()
      all.part.content:peek(2)
      for _, x in ipairs {
        up, core.reader.limit(up, 50), core.reader.chunked(core.reader.string(%q)),
        core.reader["function"](function() return "abc" end), core.reader.file(io.tmpfile(), -1, true),
        core.writer["function"](function() return true end), core.poll.new(), core.poll.new("poll"),
      } do
        all[#all + 1] = x
        pcall(x.peek, x, 3)
        pcall(x.write, x, "abc")
      end
      last = nil
    ]]
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(script:format(form, chunked))
    file:close()
    local ok, how, status = os.execute((os.getenv("LUA") or "lua5.4") .. " " .. path .. " >/dev/null")
    os.remove(path)
    assert.same({ true, "exit", 0 }, { ok, how, status })
  end)
end)

describe("a file", function()
  it("of the program's own is never closed behind its back", function()
    local r = reader.file(io.stderr, 0, true)
    r:close()
    assert.equal("file", io.type(io.stderr))
  end)

  it("may be closed under its reader", function()
    local file = io.tmpfile()
    file:write("abcdef")
    file:seek("set", 0)
    local r = reader.file(file, -1)
    assert.equal("a", r:read(1))
    file:close()
    assert.equal("closed", select(3, r:read("a")))
    r = reader.string("x")
    assert.equal("write-failed", select(3, r:copy(file)))
  end)
end)

-- Random deeds on a few objects that know each other, for as long as there is time.
describe("a monkey", function()
  local rnd = math.random
  local over = false -- what finalisers make while the state is closed, nobody finalises

  local function world()
    local pool, depth = {}, 0
    local deeds

    local function any() return pool[rnd(#pool)] end

    local function deed()
      if over or depth > 4 then return end
      depth = depth + 1
      pcall(deeds[rnd(#deeds)])
      depth = depth - 1
    end

    local function source(bytes)
      local at = 1
      return function()
        if rnd(3) == 1 then deed() end
        if rnd(4) == 1 and coroutine.isyieldable() then coroutine.yield() end
        local n = rnd(9)
        at = at + n
        if at - n > #bytes then return nil end
        return bytes:sub(at - n, at - 1)
      end
    end

    local function put(x) pool[rnd(12)] = x end

    local function on_reader(method, ...)
      local args = table.pack(...)
      return function()
        local x = any()
        return x[method](x, table.unpack(args, 1, args.n))
      end
    end

    deeds = {
      function() put(reader["function"](source(({ form, request, chunked, "a\nb\nc\n" })[rnd(4)]:rep(2)))) end,
      function() put(reader.string(({ form, request, chunked })[rnd(3)])) end,
      function() put(reader.limit(any(), rnd(60), rnd(2) == 1)) end,
      function() put(reader.chunked(any())) end,
      function() put((multipart.parts(any(), "b", rnd(2) == 1, { parts = rnd(3) }, rnd(2) == 1))) end,
      function() put(any()().content) end,
      function() put(any()().content) end,
      function() return any()() end,
      function() put(any():source()) end,
      function() put(any():lines(rnd(8))) end,
      function() return head.order(head.new():read(any(), "request").headers) end,
      function() return head.new():read(any(), "response") end,
      function() return any():read(rnd(30)) end,
      function() return any():skip(rnd(30)) end,
      function() return any():peek(rnd(30)) end,
      function() return any():copy(source(form)) end,
      function() return any():copy(writer["function"](function() deed() return true end)) end,
      function() return setmetatable({}, { __gc = deed }) end,
      on_reader("read", "l", "a"), on_reader("read", "a"), on_reader("read_some"), on_reader("trailers"),
      on_reader("length"), on_reader("close"), on_reader("release"), on_reader("idle"), on_reader("preload", "x"),
      on_reader("status"), on_reader("at_hand"), on_reader("limits", { max_all = 20 }),
      function() return any():on_close(deed) end,
      function() return any():on_wait(function() deed() return true end) end,
      function() return collectgarbage("step", 100) end,
    }
    for i = 1, 12 do pool[i] = reader.string(form) end
    return deed
  end

  it("breaks nothing", function()
    local seed = tonumber(os.getenv("MONKEY") or 1)
    for round = seed, seed + (slow and 20 or 400) do
      math.randomseed(round)
      collectgarbage(round % 2 == 0 and "generational" or "incremental")
      local deed = world()
      local tasks = {}
      for i = 1, 3 do tasks[i] = coroutine.create(function() for _ = 1, 60 do deed() end end) end
      for i = 1, 400 do
        local co = tasks[i % 3 + 1]
        if coroutine.status(co) == "suspended" then coroutine.resume(co) end
      end
    end
    over = true
    collectgarbage("incremental")
    math.randomseed(os.time())
  end)
end)
