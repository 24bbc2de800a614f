-- partline.loop and the poller below it. Every test runs on each backend this system has.

local loop_module = require "partline.loop"
local poll = require "partline.core".poll
local socket = require "socket"

local unpack = table.unpack

-- A connected pair of non-blocking TCP sockets and their descriptors.
local listener = assert(socket.bind("127.0.0.1", 0, 4096))
local host, port = listener:getsockname()
local function pair()
  local a = assert(socket.tcp4())
  assert(a:connect(host, port))
  local b = assert(listener:accept())
  for _, s in ipairs { a, b } do
    s:settimeout(0)
    s:setoption("tcp-nodelay", true)
  end
  return a, b, math.tointeger(a:getfd()), math.tointeger(b:getfd())
end

-- The same, remembered among the open ones.
local function pair_among(open)
  local a, b, fa, fb = pair()
  open[#open + 1] = a
  open[#open + 1] = b
  return a, b, fa, fb
end

local function elapsed(f, ...)
  local start = poll.now()
  f(...)
  return poll.now() - start
end

local function between(low, high, x)
  assert.is_true(x >= low and x <= high, ("%g is not in %g .. %g"):format(x, low, high))
end

describe("poll", function()
  it("has a clock that goes forward, in seconds", function()
    local a = poll.now()
    poll.sleep(0.01)
    between(0.0099, 0.2, poll.now() - a)
  end)

  it("waits for one descriptor, blocking", function()
    local a, b, fd = pair()
    between(0.02, 0.2, elapsed(function()
      assert.same({ nil, "timed out", "timeout" }, { poll.wait_until(fd, "r", poll.now() + 0.02) })
    end))
    assert.is_true(poll.wait_until(fd, "w"))
    b:send("x")
    assert.is_true(poll.wait_until(fd, "r", poll.now() + 1))
    a:close() b:close()
  end)

  it("answers with values where the system refuses", function()
    local a, _, fd = pair()
    a:close()
    assert.same({ nil, "closed" }, { (poll.wait_until(fd, "r", 0)), (select(3, poll.wait_until(fd, "r", 0))) })
    for _, name in ipairs { "epoll", "kqueue", "poll" } do
      local p, message, code = poll.new(name)
      if not p then
        assert.is_string(message)
        assert.equal("not-available", code)
      end
    end
  end)

  it("raises on misuse", function()
    assert.has_error(function() poll.wait_until(-1, "r") end)
    assert.has_error(function() poll.wait_until(0, "x") end)
    local p = poll.new()
    assert.equal("poller (" .. p:backend() .. ")", tostring(p))
    p:close()
    p:close()
    p:detach(3)
    assert.has_error(function() p:wait(0, {}) end)
    assert.equal("poller (closed)", tostring(p))
  end)
end)

for _, backend in ipairs { "epoll", "kqueue", "poll" } do
  if poll.new(backend) then

describe("poller " .. backend, function()
  local p, events, open
  before_each(function() p, events, open = poll.new(backend), {}, {} end)
  after_each(function()
    p:close()
    for _, s in ipairs(open) do s:close() end
  end)

  local function new_pair() return pair_among(open) end

  -- All events within a moment, as {[fd] = bits}.
  local function collect(seconds)
    local got = {}
    repeat
      local n = p:wait(next(got) and 0 or seconds or 0.01, events)
      for i = 1, 2 * n, 2 do got[events[i]] = (got[events[i]] or 0) | events[i + 1] end
    until n == 0
    return got
  end

  it("reports a wanted mode once", function()
    local _, b, fa = new_pair()
    assert.is_true(p:want(fa, "w"))
    assert.same({ [fa] = 2 }, collect())
    assert.same({}, collect())
    assert.is_true(p:want(fa, "r"))
    assert.same({}, collect())
    b:send("x")
    assert.same({ [fa] = 1 }, collect())
    assert.same({}, collect())
    p:want(fa, "r")
    assert.same({ [fa] = 1 }, collect())
  end)

  it("takes both modes of one descriptor", function()
    local _, b, fa = new_pair()
    p:want(fa, "r")
    p:want(fa, "w")
    assert.equal(2, collect()[fa])
    b:send("x") -- the read side must still be armed
    assert.equal(1, collect()[fa])
  end)

  it("reports an attached descriptor's changes without being asked, where it says so", function()
    local _, b, fa = new_pair()
    local edge = p:attach(fa)
    assert.equal(backend ~= "poll", edge)
    if not edge then p:want(fa, "w") end
    assert.equal(2, collect()[fa] & 2)
    if not edge then p:want(fa, "r") end
    b:send("x")
    assert.equal(1, collect()[fa] & 1)
    assert.same({}, collect())
    p:detach(fa)
    b:send("x")
    assert.same({}, collect())
  end)

  it("tells that the peer has ended", function()
    local _, b, fa = new_pair()
    local edge = p:attach(fa)
    if edge then collect() else p:want(fa, "r") end
    b:close()
    local bits = collect()[fa]
    assert.equal(edge and 5 or 1, bits & 5)
  end)

  it("finds a number that was closed and given out again", function()
    local a, b, fa = new_pair()
    p:want(fa, "r")
    assert.same({}, collect())
    a:close() b:close()
    local c, d, fc, fd = new_pair()
    local old, other = c, d
    if fc ~= fa then old, other = d, c end
    assert.equal(fa, math.tointeger(old:getfd()), "the system gave other numbers")
    assert(fc == fa or fd == fa)
    p:want(fa, "r")
    other:send("x")
    assert.equal(1, collect()[fa])
  end)

  it("attaches a number again that was closed without detach", function()
    local a, b, fa = new_pair()
    p:attach(fa)
    a:close() b:close()
    local c, d, fc = new_pair()
    local other = fc == fa and d or c
    local edge = p:attach(fa)
    if not edge then p:want(fa, "r") end
    other:send("x")
    assert.equal(1, collect()[fa] & 1)
  end)

  it("takes regular files for always ready", function()
    local path = os.tmpname()
    local c = new_pair() -- LuaSocket can carry any descriptor: find the one io.open gets
    local gone = math.tointeger(c:getfd())
    c:close()
    local f = assert(io.open(path))
    assert.is_false(p:attach(gone))
    for _ = 1, 2 do
      assert.is_true(p:want(gone, "r"))
      assert.is_true(p:want(gone, "w"))
      assert.same({ [gone] = 3 }, collect(5))
      assert.same({}, collect(0))
    end
    p:want(gone, "r")
    p:detach(gone)
    assert.same({}, collect(0))
    f:close()
    os.remove(path)
  end)

  it("refuses numbers nobody has", function()
    for _, fd in ipairs { 999999, 2 ^ 30 } do
      assert.equal("closed", (select(3, p:want(fd, "r"))))
      assert.equal("closed", (select(3, p:attach(fd))))
      p:detach(fd)
    end
    assert.has_error(function() p:want(-1, "r") end)
    assert.has_error(function() p:want(2 ^ 40, "r") end)
    assert.has_error(function() p:want(0, "rw") end)
    assert.has_error(function() p:wait(0) end)
  end)

  it("rounds times up and takes nil for ever", function()
    between(0.0015, 0.1, elapsed(function() assert.equal(0, p:wait(0.0015, events)) end))
    between(0, 0.001, elapsed(function() p:wait(0, events) end))
    between(0, 0.001, elapsed(function() p:wait(-1, events) end))
    local _, _, fa = new_pair()
    p:want(fa, "w")
    assert.equal(1, p:wait(nil, events))
    p:want(fa, "w")
    assert.equal(1, p:wait(math.huge, events))
  end)

  it("serves more than 1024 descriptors, each of them once", function()
    local fds, peers = {}, {}
    for i = 1, 1100 do
      local ok, a, b, fa = pcall(new_pair)
      if not ok then
        for _, s in ipairs(open) do s:close() end
        return pending("only " .. i .. " pairs: raise ulimit -n")
      end
      fds[i], peers[i] = fa, b
      assert(a and p:want(fa, "r"))
    end
    assert.is_true(fds[1100] > 1024)
    for i = 1, 1100 do peers[i]:send("x") end
    local seen, count = {}, 0
    repeat
      local n = p:wait(0.2, events)
      assert.is_true(n <= 512)
      for i = 1, 2 * n, 2 do
        assert.is_nil(seen[events[i]])
        seen[events[i]] = true
      end
      count = count + n
    until n == 0
    assert.equal(1100, count)
    for i = 1, 1100 do assert.is_true(seen[fds[i]]) end
  end)

  it("allocates nothing per call", function()
    local _, _, fa = new_pair()
    p:want(fa, "w")
    p:wait(0, events)
    collectgarbage() collectgarbage("stop")
    local before = collectgarbage("count")
    for _ = 1, 1000 do
      p:want(fa, "w")
      p:wait(0, events)
    end
    assert.is_true(collectgarbage("count") - before < 1)
    collectgarbage("restart")
  end)

  it("has a descriptor of its own to poll, except with poll(2)", function()
    local _, _, fa = new_pair()
    local fd = p:fd()
    if backend == "poll" then return assert.is_nil(fd) end
    assert.is_nil(poll.wait_until(fd, "r", 0))
    p:want(fa, "w")
    assert.is_true(poll.wait_until(fd, "r", poll.now() + 1))
  end)
end)

describe("loop on " .. backend, function()
  local loop, open
  before_each(function() loop, open = loop_module.new(backend), {} end)
  after_each(function()
    loop.close()
    for _, s in ipairs(open) do s:close() end
  end)

  local function new_pair() return pair_among(open) end

  -- The way all callers wait: try, then wait, then try again.
  local function receive(sock, fd, n, deadline)
    while true do
      local data, err, part = sock:receive(n)
      if data or part ~= "" then return data or part end
      if err ~= "timeout" then return nil, err, err end
      local ok, message, code = loop.wait(fd, "r", deadline)
      if not ok then return nil, message, code end
    end
  end

  it("runs tasks in the order of spawn, with their arguments, from the next round on", function()
    local log = {}
    local function note(...) log[#log + 1] = table.concat({ select("#", ...), ... }, " ") end
    loop.spawn(note)
    loop.spawn(note, "a")
    loop.spawn(note, "a", "b", "c")
    loop.spawn(function() loop.spawn(note, "child") note("parent") end)
    assert.same({}, log)
    assert.is_true(loop.step(0))
    assert.same({ "0", "1 a", "3 a b c", "1 parent" }, log)
    assert.is_false(loop.step(0))
    assert.equal("1 child", log[5])
    assert.is_false(loop.step())
  end)

  it("keeps nil arguments", function()
    local got
    loop.spawn(function(...) got = { n = select("#", ...), ... } end, nil, 2, nil)
    loop.run()
    assert.same({ n = 3, nil, 2, nil }, got)
  end)

  it("run(f) gives f's results and leaves the others", function()
    local others = 0
    loop.spawn(function() loop.sleep(0.03) others = 1 end)
    assert.same({ 1, nil, 3 }, { loop.run(function(x) loop.sleep(0.001) return x, nil, 3 end, 1) })
    assert.equal(0, others)
    loop.run()
    assert.equal(1, others)
  end)

  it("run(f) raises f's error", function()
    local object = {}
    local ok, err = pcall(loop.run, function() loop.sleep(0) error(object) end)
    assert.is_false(ok)
    assert.equal(object, err)
    assert.is_false(loop.step(0))
  end)

  it("stops", function()
    local rounds = 0
    loop.spawn(function()
      while true do
        rounds = rounds + 1
        if rounds == 3 then loop.stop() end
        loop.sleep(0)
      end
    end)
    loop.run()
    assert.equal(3, rounds)
    assert.is_nil(loop.run(function() loop.stop() loop.sleep(10) return 1 end))
  end)

  it("refuses to be run from inside", function()
    local errors = {}
    loop.run(function()
      for _, name in ipairs { "run", "step", "close" } do errors[#errors + 1] = select(2, pcall(loop[name])) end
    end)
    assert.equal(3, #errors)
    for _, err in ipairs(errors) do assert.matches("own tasks", err) end
  end)

  it("knows the running task", function()
    assert.is_nil(loop.running())
    local inside
    local task = loop.spawn(function() inside = loop.running() end)
    loop.run()
    assert.equal(task, inside)
    assert.is_nil(loop.running())
  end)

  it("passes the error of a task to on_error and goes on", function()
    local got, after_it
    loop.on_error = function(err, traceback, task) got = { err, traceback, task } end
    local function guilty() error("oops") end
    local task = loop.spawn(function() loop.sleep(0) guilty() end)
    loop.spawn(function() loop.sleep(0.01) after_it = true end)
    loop.run()
    assert.matches("oops", got[1])
    assert.matches("guilty", got[2])
    assert.equal(task, got[3])
    assert.is_true(after_it)
  end)

  it("survives an on_error that fails, and says both on stderr", function()
    local said, stderr = "", io.stderr
    loop.on_error = function() error("worse") end
    io.stderr = { write = function(_, ...) said = said .. table.concat { ... } end } -- luacheck: ignore
    loop.spawn(error, "bad")
    local ok = pcall(loop.run)
    io.stderr = stderr -- luacheck: ignore
    assert.is_true(ok)
    assert.matches("worse", said)
    assert.matches("bad", said)
  end)

  it("sleeps exactly, and in order", function()
    local order = {}
    local start = loop.now()
    for _, s in ipairs { 0.03, 0.01, 0.02 } do
      loop.spawn(function()
        assert.is_true(loop.sleep(s))
        order[#order + 1] = s
        between(s, s + 0.015, loop.now() - start)
      end)
    end
    loop.run()
    assert.same({ 0.01, 0.02, 0.03 }, order)
  end)

  it("wakes 10,000 sleepers by time, equal times first come first served", function()
    local order, expected, fds = {}, {}, {}
    for i = 0, 99 do fds[i] = select(3, new_pair()) end
    local start = loop.now() + 0.05
    for i = 1, 10000 do
      local k = i * 7919 % 100
      expected[i] = { k, i }
      loop.spawn(function()
        local _, _, code = loop.wait(fds[i % 100], "r", start + k / 10000)
        assert(code == "timeout")
        order[#order + 1] = i
      end)
    end
    table.sort(expected, function(x, y) return x[1] < y[1] or x[1] == y[1] and x[2] < y[2] end)
    loop.run()
    for i = 1, 10000 do assert(order[i] == expected[i][2]) end
  end)

  it("times out, and finds events after the time has passed", function()
    local _, b, fa = new_pair()
    loop.run(function()
      local start = loop.now()
      local ok, message, code = loop.wait(fa, "r", loop.deadline_in(0.02))
      assert.same({ nil, "timed out", "timeout" }, { ok, message, code })
      between(0.02, 0.1, loop.now() - start)
      b:send("x")
      assert.is_true(loop.wait(fa, "r", loop.now() - 1))
      assert.equal("timeout", (select(3, loop.wait(new_pair() and select(3, new_pair()), "r", loop.now() - 1))))
    end)
  end)

  it("moves deadlines later and earlier", function()
    local a, b, fa = new_pair()
    loop.attach(fa)
    loop.run(function()
      loop.spawn(function()
        for _ = 1, 20 do loop.sleep(0.002) b:send("x") end
      end)
      local start = loop.now()
      for _ = 1, 20 do assert.equal("x", receive(a, fa, 1, loop.deadline_in(0.03))) end -- later each time
      between(0.04, 0.2, loop.now() - start)
      start = loop.now()
      assert.equal("timeout", (select(3, receive(a, fa, 1, loop.deadline_in(0.03))))) -- the renewed one holds
      between(0.03, 0.1, loop.now() - start)
      loop.spawn(function() loop.sleep(0.005) b:send("y") end)
      assert.equal("y", receive(a, fa, 1, loop.deadline_in(5)))
      start = loop.now()
      assert.equal("timeout", (select(3, receive(a, fa, 1, loop.deadline_in(0.01))))) -- earlier than the one in place
      between(0.01, 0.1, loop.now() - start)
      assert.is_true(loop.timeout() == nil or loop.timeout() == 0)
    end)
  end)

  it("drops the timer of a task that has ended", function()
    local a, b, fa = new_pair()
    between(0, 0.5, elapsed(function()
      loop.spawn(function() receive(a, fa, 1, loop.deadline_in(60)) end)
      loop.spawn(function() b:send("x") end)
      loop.run()
    end))
    assert.is_nil(loop.timeout())
  end)

  for _, how in ipairs { "attached", "not attached" } do
    it("waits for both directions of a descriptor, " .. how, function()
      local a, b, fa, fb = new_pair()
      if how == "attached" then loop.attach(fa) loop.attach(fb) end
      local block = ("x"):rep(65536)
      local got
      loop.spawn(function() -- fills the pipe until it blocks, then waits for "w"
        local sent, last = 0, 0
        while sent < 8e6 do
          local ok, err, part = a:send(block, last + 1)
          local now_at = ok or part
          sent, last = sent + now_at - last, now_at
          if last == #block then last = 0 end
          if not ok then assert(err == "timeout" and loop.wait(fa, "w", loop.deadline_in(5))) end
        end
      end)
      loop.spawn(function() got = receive(a, fa, 5, loop.deadline_in(5)) end) -- the same descriptor, at the same time
      loop.spawn(function()
        loop.sleep(0.02)
        b:send("hello")
        local n = 0
        while n < 8e6 do n = n + #assert(receive(b, fb, 100000, loop.deadline_in(5))) end
      end)
      loop.run()
      assert.equal("hello", got)
    end)

    it("remembers or finds an event that came before the wait, " .. how, function()
      local a, b, fa = new_pair()
      if how == "attached" then loop.attach(fa) end
      loop.run(function()
        loop.sleep(0.002)
        b:send("x")
        loop.sleep(0.005) -- the event arrives while nobody waits
        assert.is_true(loop.wait(fa, "r", loop.deadline_in(0.5)))
        assert.equal("x", a:receive(1))
      end)
    end)

    it("is always ready once the peer has ended, " .. how, function()
      local _, b, fa = new_pair()
      if how == "attached" then loop.attach(fa) end
      b:close()
      loop.run(function()
        for _ = 1, 3 do
          assert.is_true(loop.wait(fa, "r", loop.deadline_in(0.5)))
          loop.sleep(0)
        end
      end)
    end)

    it("wakes every task that waits for the same thing, in order, " .. how, function()
      local _, b, fa = new_pair()
      if how == "attached" then loop.attach(fa) end
      local woken = {}
      for i = 1, 4 do
        loop.spawn(function()
          local ok = loop.wait(fa, "r", loop.deadline_in(i == 2 and 0.01 or 1))
          woken[#woken + 1] = i * (ok and 1 or -1)
        end)
      end
      loop.spawn(function() loop.sleep(0.03) b:send("x") end)
      loop.run()
      assert.same({ -2, 1, 3, 4 }, woken)
    end)

    it("detach wakes who waits, " .. how, function()
      local _, _, fa = new_pair()
      if how == "attached" then loop.attach(fa) end
      local results = {}
      for _, mode in ipairs { "r", "r" } do
        loop.spawn(function() table.insert(results, { loop.wait(fa, mode, loop.deadline_in(1)) }) end)
      end
      loop.spawn(function() loop.sleep(0.005) loop.detach(fa) end)
      loop.run()
      local closed = { nil, "descriptor was closed", "closed" }
      assert.same({ closed, closed }, results)
      loop.detach(fa)
    end)
  end

  it("serves a number that was closed without detach and given out again", function()
    local a, b, fa = new_pair()
    local first
    loop.run(function()
      loop.spawn(function() first = { loop.wait(fa, "r") } end)
      loop.sleep(0.002)
      a:close() b:close()
      local c, d, fc, fd = new_pair()
      local other = fc == fa and d or c
      assert(fc == fa or fd == fa)
      loop.spawn(function() loop.sleep(0.005) other:send("x") end)
      assert.is_true(loop.wait(fa, "r", loop.deadline_in(1)))
      loop.sleep(0)
      assert.same({ true }, first) -- the one who waited for the old one looks, and finds it closed
    end)
  end)

  it("says closed for a number nobody has", function()
    local fa = 999999
    loop.run(function() assert.equal("closed", (select(3, loop.wait(fa, "r", loop.deadline_in(1))))) end)
    assert.equal("closed", (select(3, loop.wait(fa, "r", loop.deadline_in(1)))))
    assert.equal("closed", (select(3, loop.attach(fa))))
  end)

  it("raises on a wrong mode or time, at the caller's line", function()
    local _, err = pcall(function() loop.wait(0, "rw") end)
    assert.matches("^spec/loop_spec.lua:%d+: ", err)
    _, err = pcall(function() loop.sleep("1") end)
    assert.matches("^spec/loop_spec.lua:%d+: ", err)
  end)

  it("tells whether a task has ended, well or not", function()
    loop.on_error = function() end
    local good, bad = loop.spawn(function() loop.sleep(0) end), loop.spawn(error)
    assert.is_false(loop.finished(good))
    while not (loop.finished(good) and loop.finished(bad)) do loop.step(0.1) end
    assert.is_false(loop.cancel(good))
  end)

  describe("park", function()
    -- A job that notes what each run is told, and in which coroutine, and parks again `times` times.
    local function new_job(fd, times, seconds)
      local job = { log = {}, runs = {}, tasks = {} }
      function job:resume(...)
        self.log[#self.log + 1] = { ... }
        self.runs[#self.runs + 1] = coroutine.running()
        self.tasks[#self.tasks + 1] = loop.running()
        if #self.log > times then return end
        loop.park(self, fd, fd and "r", seconds and loop.deadline_in(seconds))
      end
      return job
    end

    local function begin(job) return loop.spawn(job.resume, job, "begun") end

    for _, attached in ipairs { true, false } do
      it("calls the job each time, as one task, the descriptor attached: " .. tostring(attached), function()
        local _, b, fa = new_pair()
        if attached then loop.attach(fa) end
        local job = new_job(fa, 2)
        local task = begin(job)
        loop.step(0)
        assert.is_true(loop.parked(task))
        loop.step(0)
        assert.equal(1, #job.log)
        b:send("x")
        loop.step(1)
        b:send("y")
        loop.step(1)
        if attached then loop.detach(fa) end
        assert.same({ { "begun" }, { true }, { true } }, job.log)
        assert.same({ task, task, task }, job.tasks)
        assert.is_true(loop.finished(task))
        assert.is_false(loop.parked(task))
        assert.is_false(loop.step(0))
      end)
    end

    it("takes an event that came before", function()
      local _, b, fa = new_pair()
      loop.attach(fa)
      b:send("x")
      local job = new_job(fa, 1)
      loop.spawn(function() -- the edge is seen by nobody
        loop.sleep(0.01)
        begin(job)
      end)
      loop.run()
      loop.detach(fa)
      assert.same({ { "begun" }, { true } }, job.log)
    end)

    it("tells of the deadline, cancel and detach", function()
      local _, _, fa = new_pair()
      local _, _, fc = new_pair()
      local _, _, fd = new_pair()
      local late, cancelled, detached = new_job(fa, 1, 0.01), new_job(fc, 1), new_job(fd, 1, 60)
      begin(late)
      local task = begin(cancelled)
      begin(detached)
      loop.step(0)
      assert.is_true(loop.cancel(task, "enough"))
      loop.detach(fd)
      loop.run()
      assert.same({ nil, "timed out", "timeout" }, late.log[2])
      assert.same({ nil, "enough", "closed" }, cancelled.log[2])
      assert.same({ nil, "descriptor was closed", "closed" }, detached.log[2])
      assert.same({ 2, 2, 2 }, { #late.log, #cancelled.log, #detached.log })
    end)

    it("tells of a cancel that came while it ran or was ready", function()
      local a, b, fa = new_pair()
      loop.attach(fa)
      local job = new_job(fa, 3)
      local resume, task = job.resume, nil
      function job:resume(...)
        a:receive(1)
        return resume(self, ...)
      end
      task = loop.spawn(function()
        loop.cancel(task, "early")
        job:resume("begun")
      end)
      loop.step(0)
      loop.step(0)
      assert.same({ nil, "early", "closed" }, job.log[2])
      loop.step(0)
      b:send("x")
      loop.spawn(function()
        loop.sleep(0.01)
        loop.cancel(task, "late")
      end)
      loop.run()
      loop.detach(fa)
      assert.same({ true }, job.log[3])
      assert.same({ nil, "late", "closed" }, job.log[4])
    end)

    it("gives the others their turn without a descriptor", function()
      local order, job = {}, {}
      function job:resume(...)
        order[#order + 1] = "job"
        if #order < 4 then loop.park(self) end
        return ...
      end
      loop.spawn(job.resume, job)
      loop.spawn(function() for _ = 1, 2 do order[#order + 1] = "other" loop.sleep(0) end end)
      loop.run()
      assert.same({ "job", "other", "job", "other", "job" }, order)
    end)

    it("needs one coroutine for all that do not wait, and keeps none", function()
      local jobs, others = {}, {}
      for i = 1, 20 do
        local _, b, fa = new_pair()
        loop.attach(fa)
        jobs[i], others[i] = new_job(fa, 1), b
        begin(jobs[i])
      end
      loop.step(0)
      for _, b in ipairs(others) do b:send("x") end
      socket.sleep(0.01)
      loop.step(1)
      local seen = {}
      for _, job in ipairs(jobs) do seen[job.runs[2] or "none"] = true end
      assert.is_nil(seen.none)
      local first = next(seen)
      assert.equal("thread", type(first))
      assert.is_nil(next(seen, first))
    end)

    it("lets a job wait, beside the others", function()
      local log, jobs = {}, {}
      for i = 1, 3 do
        local _, b, fa = new_pair()
        jobs[i] = { resume = function(self, ok)
          if ok == "begun" then return loop.park(self, fa, "r") end
          loop.sleep(0.02 * (4 - i))
          log[#log + 1] = i
        end }
        loop.spawn(jobs[i].resume, jobs[i], "begun")
        b:send("x")
      end
      loop.run()
      assert.same({ 3, 2, 1 }, log)
    end)

    it("tells of a job that raises, and the others go on", function()
      local raised = {}
      function loop.on_error(err, traceback, task)
        raised[#raised + 1] = err
        assert.truthy(traceback:find(err, 1, true))
        raised[err] = task
      end
      local good, bad = new_job(nil, 2), { resume = function() error("bad job", 0) end }
      local first = loop.spawn(function() loop.park(bad) end)
      begin(good)
      local second = loop.spawn(function() loop.park(bad) error("parked and raised", 0) end)
      loop.run()
      assert.equal(3, #good.log)
      assert.same({ "parked and raised", "bad job" }, { raised[1], raised[2] })
      assert.is_nil(raised[3])
      assert.equal(first, raised["bad job"])
      assert.equal(second, raised["parked and raised"])
      assert.is_true(loop.finished(first) and loop.finished(second))
    end)

    it("is for a task's own coroutine, and known modes", function()
      assert.has_error(function() loop.park({}) end)
      local outcome
      loop.run(function()
        outcome = { pcall(coroutine.wrap(function() loop.park({}) end)) }
      end)
      assert.is_false(outcome[1])
      loop.run(function() outcome = { pcall(loop.park, {}, 0, "x") } end)
      assert.is_false(outcome[1])
    end)

    it("works in rounds inside rounds", function()
      local _, b, fa = new_pair()
      local job = new_job(fa, 1)
      begin(job)
      local done
      loop.spawn(function()
        coroutine.wrap(function() -- its wait runs the loop from inside
          b:send("x")
          loop.sleep(0.02)
          done = #job.log
        end)()
      end)
      loop.run()
      assert.equal(2, done)
    end)
  end)

  it("cancels a task that waits, sleeps, is ready or has not begun", function()
    local _, b, fa = new_pair()
    local got = {}
    local function note(name, ...) got[name] = { ... } end
    local waits = loop.spawn(function() note("waits", loop.wait(fa, "r", loop.deadline_in(1))) end)
    local sleeps = loop.spawn(function() note("sleeps", loop.sleep(10)) end)
    local ready = loop.spawn(function() note("first", loop.sleep(0)) note("ready", loop.sleep(10)) end)
    loop.step(0)
    local new = loop.spawn(function() note("new", loop.wait(fa, "r")) note("again", loop.wait(fa, "w")) end)
    assert.is_true(loop.cancel(waits))
    assert.is_true(loop.cancel(sleeps, "enough"))
    assert.is_true(loop.cancel(ready))
    assert.is_true(loop.cancel(new))
    loop.run()
    assert.same({ nil, "cancelled", "closed" }, got.waits)
    assert.same({ nil, "enough", "closed" }, got.sleeps)
    assert.same({ true }, got.first)
    assert.same({ nil, "cancelled", "closed" }, got.ready)
    assert.same({ nil, "cancelled", "closed" }, got.new)
    assert.same({ true }, got.again)
    assert.is_false(loop.cancel(waits))
    b:close()
  end)

  it("rouses a task that sleeps, and no other", function()
    local _, b, fa = new_pair()
    local got = {}
    local sleeper = loop.spawn(function() got[1] = loop.sleep(math.huge) got[2] = loop.sleep(0.02) end)
    local waits = loop.spawn(function() got[3] = loop.wait(fa, "r", loop.deadline_in(0.02)) or "timeout" end)
    loop.step(0)
    assert.is_true(loop.rouse(sleeper))
    assert.is_false(loop.rouse(sleeper))
    assert.is_false(loop.rouse(waits))
    between(0.02, 0.2, elapsed(loop.run))
    assert.same({ true, true, "timeout" }, got)
    assert.is_false(loop.rouse(sleeper))
    b:close()
  end)

  it("has no timeout while all sleep until roused", function()
    local task = loop.spawn(loop.sleep, math.huge)
    loop.step(0)
    assert.is_nil(loop.timeout())
    loop.rouse(task)
    loop.run()
  end)

  it("lets the others have their turn when nothing is lacking", function()
    local _, b, fa = new_pair()
    local log = {}
    loop.spawn(function()
      log[1] = loop.wait(fa, "r", nil, true) -- nothing to read, and yet it returns
      log[3] = "back"
    end)
    loop.spawn(function() log[2] = "other" end)
    loop.run()
    assert.same({ true, "other", "back" }, log)
    b:close()
  end)

  it("takes a bare yield of a task for a pause", function()
    local log = {}
    loop.spawn(function()
      for i = 1, 3 do log[#log + 1] = i coroutine.yield("mine", i) end
    end)
    loop.spawn(function() log[#log + 1] = "other" end)
    loop.run()
    assert.same({ 1, "other", 2, 3 }, log)
  end)

  it("blocks outside of tasks", function()
    local _, b, fa = new_pair()
    between(0.02, 0.1, elapsed(function()
      assert.same({ nil, "timed out", "timeout" }, { loop.wait(fa, "r", loop.deadline_in(0.02)) })
    end))
    between(0.02, 0.1, elapsed(function() assert.is_true(loop.sleep(0.02)) end))
    b:send("x")
    assert.is_true(loop.wait(fa, "r"))
    assert.is_true(coroutine.wrap(function() return loop.wait(fa, "r", loop.now()) end)())
  end)

  it("works under pcall, in metamethods, iterators and <close>", function()
    local a, b, fa = new_pair()
    loop.attach(fa)
    local log = {}
    loop.spawn(function() for i = 1, 4 do loop.sleep(0.002) b:send(tostring(i)) end end)
    loop.run(function()
      log[1] = select(2, pcall(receive, a, fa, 1))
      log[2] = setmetatable({}, { __index = function() return receive(a, fa, 1) end }).x
      for x in function() return not log[3] and receive(a, fa, 1) or nil end do log[3] = x end
      do
        local _ <close> = setmetatable({}, { __close = function() log[4] = receive(a, fa, 1) end })
      end
    end)
    assert.same({ "1", "2", "3", "4" }, log)
  end)

  it("runs what a failed task's <close> variables owe, even if that waits", function()
    local closed
    loop.on_error = function() end
    loop.spawn(function()
      local _ <close> = setmetatable({}, { __close = function() loop.sleep(0.002) closed = true end })
      loop.sleep(0)
      error("x")
    end)
    loop.run()
    assert.is_true(closed)
  end)

  -- A generator of the handler's own: its yields are its own, and a wait inside it must not come out of them.
  local function numbers(wrap, sock, fd)
    return wrap(function()
      while true do
        local x = receive(sock, fd, 1, loop.deadline_in(2))
        if not x or x == "." then return end
        coroutine.yield(tonumber(x), "own")
      end
    end)
  end

  for _, name in ipairs { "coroutine.wrap", "loop.wrap" } do
    it("keeps waits and a task's own yields apart in " .. name, function()
      local wrap = name == "loop.wrap" and loop.wrap or coroutine.wrap
      local sums, ticks = {}, 0
      for i = 1, 15 do
        local a, b, fa = new_pair()
        if i % 2 == 0 then loop.attach(fa) end
        loop.spawn(function()
          local sum = 0
          for x, own in numbers(wrap, a, fa) do
            assert(own == "own")
            sum = sum + x
          end
          sums[#sums + 1] = sum
        end)
        loop.spawn(function()
          for x = 1, 5 do loop.sleep(0.001) b:send(x) end
          b:send(".")
        end)
      end
      loop.spawn(function() for _ = 1, 5 do loop.sleep(0.001) ticks = ticks + 1 end end)
      loop.run()
      assert.equal(5, ticks)
      assert.equal(15, #sums)
      for _, sum in ipairs(sums) do assert.equal(15, sum) end
    end)
  end

  it("refuses to nest too deep rather than to stall; loop.wrap has no such limit", function()
    local codes = {}
    for i = 1, 40 do
      local wrap = i > 20 and loop.wrap or coroutine.wrap
      loop.spawn(function()
        wrap(function()
          local _, _, code = loop.sleep(0.01)
          codes[i] = code or "ok"
        end)()
      end)
    end
    loop.run()
    local count = { ok = 0, ["nested-too-deep"] = 0 }
    for i = 1, 40 do count[codes[i]] = count[codes[i]] + 1 end
    assert.same({ ok = 36, ["nested-too-deep"] = 4 }, count)
  end)

  it("lets the other tasks go on while a foreign coroutine waits", function()
    local a, b, fa = new_pair()
    local got
    loop.spawn(function() got = coroutine.wrap(function() return receive(a, fa, 1, loop.deadline_in(2)) end)() end)
    loop.spawn(function() loop.sleep(0.005) b:send("x") end) -- blocking would never come to this
    between(0, 1, elapsed(loop.run))
    assert.equal("x", got)
  end)

  it("sleeps, times out and is cancelled in a foreign coroutine", function()
    local _, _, fa = new_pair()
    local got = {}
    local task = loop.spawn(function()
      coroutine.wrap(function()
        got[1] = { loop.sleep(0.002) }
        got[2] = { loop.wait(fa, "r", loop.deadline_in(0.002)) }
        got[3] = { loop.wait(fa, "r") }
      end)()
      got[4] = loop.running()
    end)
    loop.spawn(function() loop.sleep(0.05) loop.cancel(task) end)
    loop.run()
    assert.same({ { true }, { nil, "timed out", "timeout" }, { nil, "cancelled", "closed" } }, { unpack(got, 1, 3) })
    assert.equal(task, got[4])
    assert.is_nil(loop.timeout())
  end)

  it("loop.wrap passes values and errors like coroutine.wrap, outside of tasks too", function()
    local go = loop.wrap(function(a, b) local c = coroutine.yield(a + b) error("e" .. c, 0) end)
    assert.equal(3, go(1, 2))
    assert.same({ false, "e4" }, { pcall(go, 4) })
    assert.is_false((pcall(go)))
    assert.is_true(loop.wrap(function() return loop.sleep(0.001) end)())
  end)

  it("lives in another loop", function()
    local a, b, fa = new_pair()
    loop.attach(fa)
    local got, ticks = nil, 0
    loop.spawn(function() got = receive(a, fa, 1) end)
    loop.spawn(function() loop.sleep(0.01) ticks = ticks + 1 b:send("x") end)
    assert.equal(0, loop.timeout())
    loop.step(0)
    between(0.001, 0.01, loop.timeout())
    local fd, rounds = loop.pollfd(), 0
    assert.equal("r", loop.events())
    while loop.step(0) do
      rounds = rounds + 1
      local left = loop.timeout()
      if fd then poll.wait_until(fd, loop.events(), left and poll.now() + left) else poll.sleep(0.001) end
    end
    assert.equal("x", got)
    assert.equal(1, ticks)
    assert.is_true(not fd or rounds < 10)
  end)

  it("is independent of other loops", function()
    local other = loop_module.new(backend)
    local log = {}
    other.spawn(function() log[#log + 1] = "other" end)
    loop.spawn(function()
      loop.sleep(0)
      log[#log + 1] = "loop"
      other.run() -- blocks this one, as any foreign call
      other.sleep(0)
    end)
    loop.run()
    assert.same({ "loop", "other" }, log)
    other.close()
  end)

  it("uses no CPU when idle", function()
    local _, _, fa = new_pair()
    loop.attach(fa)
    for i = 1, 100 do loop.spawn(function() loop.wait(fa, "r", loop.deadline_in(0.5 + i / 1e5)) end) end
    local cpu = os.clock()
    between(0.5, 1, elapsed(loop.run))
    between(0, 0.02, os.clock() - cpu)
  end)

  it("keeps its memory over 100,000 waits", function()
    local a, b, fa, fb = new_pair()
    loop.attach(fa)
    loop.attach(fb)
    local grown
    local function echo(sock, fd, n)
      for _ = 1, n do
        receive(sock, fd, 1, loop.deadline_in(60))
        sock:send("x")
      end
    end
    loop.run(function()
      b:send("x")
      loop.spawn(echo, a, fa, 52000)
      echo(b, fb, 2000)
      collectgarbage() collectgarbage()
      local before = collectgarbage("count")
      echo(b, fb, 49999)
      collectgarbage()
      grown = collectgarbage("count") - before
    end)
    assert.is_true(grown < 4)
  end)

  it("allocates nothing in a wait", function()
    local a, b, fa = new_pair()
    if not loop.attach(fa) then return end
    local grown
    loop.spawn(function()
      for _ = 1, 3000 do b:send("x") loop.sleep(0) loop.sleep(0) end
    end)
    loop.run(function()
      for i = 1, 2000 do
        if i == 1000 then collectgarbage() collectgarbage("stop") grown = collectgarbage("count") end
        while not a:receive(1) do loop.wait(fa, "r", 1e12) end
      end
      grown = collectgarbage("count") - grown
      collectgarbage("restart")
    end)
    between(-1, 4, grown)
  end)

  it("keeps its memory over many short tasks and timers", function()
    local function burst()
      for _ = 1, 100 do
        for i = 1, 20 do loop.spawn(function() loop.sleep(i % 3 * 1e-5) end) end
        loop.run()
      end
      collectgarbage() collectgarbage()
      return collectgarbage("count")
    end
    burst()
    local before = burst()
    burst()
    between(-50, 8, burst() - before)
  end)
end)

  end
end

describe("the default loop", function()
  it("has every function of loop.new's", function()
    for name in pairs(loop_module.new()) do assert.is_function(loop_module[name]) end
  end)

  it("runs", function()
    assert.equal(1, loop_module.run(function() loop_module.sleep(0.001) return 1 end))
    assert.same({ nil, "not-available" }, { (loop_module.new("none")), (select(3, loop_module.new("none"))) })
  end)
end)
