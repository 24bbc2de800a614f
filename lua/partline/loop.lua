--- Coroutine scheduler: tasks that wait for descriptors and deadlines. No HTTP, no sockets.
--
-- The module is itself a loop, made on first use; `loop.new()` makes independent ones with the same functions.
-- All functions are called with a dot. See doc/loop.md.

local poll = require "partline.core".poll
local timers = require "partline.loop.timers"

local create, resume, running, yield = coroutine.create, coroutine.resume, coroutine.running, coroutine.yield
local close_coroutine = coroutine.close or function() end -- Lua 5.3 has none
local set_deadline, remove_timer, postpone = timers.set, timers.remove, timers.postpone
local pack, unpack, now, wait_until = table.pack, table.unpack, poll.now, poll.wait_until

local WAIT, DONE = {}, {}              -- what tasks yield to the loop; nobody else can yield these
local READY, ENDED = true, "ended"     -- slots: an event nobody waited for; the peer has ended, so always ready
local SLEEP = {}                       -- task.slots of a task that waits for its timer only
local MAX_IDLE = 256                   -- coroutines kept for the next spawn
local MAX_NESTED = 16                  -- rounds inside rounds; each one takes about 5 of Lua's 200 C calls

-- {== ready queue ==

-- The tail moves first: growing the table may run a finaliser that detaches, and so pushes too.
local function push(self, task)
  local tail = self.tail
  self.tail = tail + 1
  self.queue[tail] = task
end

-- Moves the queue to the front, so that it does not walk through memory when it is never empty.
local function rewind(self)
  local head, tail = self.head, self.tail
  if head == tail then
    self.head, self.tail = 1, 1
  elseif head > 1024 and head > tail - head then
    table.move(self.queue, head, tail - 1, 1)
    for i = head, tail - 1 do self.queue[i] = false end
    self.head, self.tail = 1, tail - head + 1
  end
end

-- == ready queue ==}
-- {== waking ==

-- Puts a waiting task into the ready queue; its wait returns true, or nil, message, code. It is in no slot any more.
local function wake(self, task, message, code)
  task.slots, task.deadline = false, false
  if code then task.news = { message = message, code = code } end
  push(self, task)
end

-- Several tasks may wait for the same thing: they form a list through `link`, first come first.
local function join(first, task)
  while first.link do first = first.link end
  first.link = task
end

local function leave(task)
  local slots, fd, link = task.slots, task.fd, task.link
  task.link = false
  if slots == SLEEP then return end
  local other = slots[fd]
  if other == task then
    slots[fd] = link
    return
  end
  while other.link ~= task do other = other.link end
  other.link = link
end

local function wake_all(self, task, message, code)
  while task do
    local link = task.link
    task.link = false
    wake(self, task, message, code)
    task = link
  end
end

-- One direction of a descriptor became ready. An edge nobody waits for is remembered: it will not come again.
local function signal(self, slots, fd, ended)
  local task = slots[fd]
  if task and task ~= READY and task ~= ENDED then
    slots[fd] = ended and ENDED
    wake_all(self, task)
  elseif ended then
    slots[fd] = ENDED
  elseif not task and self.edge[fd] then
    slots[fd] = READY
  end
end

-- The commonest event by far, a descriptor that one task waits for, is handled here; signal knows all the others.
local function dispatch(self, events, n)
  local readers, writers = self.readers, self.writers
  for i = 1, 2 * n, 2 do
    local fd, bits = events[i], events[i + 1]
    if bits & 1 ~= 0 then
      local task = readers[fd]
      if bits < 4 and task and task ~= READY and task ~= ENDED and not task.link then
        readers[fd], task.slots, task.deadline = false, false, false
        local tail = self.tail
        self.tail = tail + 1
        self.queue[tail] = task
      else
        signal(self, readers, fd, bits & 4 ~= 0 and self.edge[fd] or false)
      end
    end
    if bits & 2 ~= 0 and writers[fd] ~= READY then signal(self, writers, fd, false) end
  end
end

local function expire(self, task)
  leave(task)
  if task.slots == SLEEP then return wake(self, task) end
  return wake(self, task, "timed out", "timeout")
end

local function fire_timers(self)
  local time, times, sleepers = now(), self.times, self.sleepers
  while self.timers > 0 and times[1] <= time do
    local task = sleepers[1]
    local deadline = task.deadline
    if deadline and deadline > time then
      postpone(self, task)
    else
      remove_timer(self, task)
      if deadline then expire(self, task) end
    end
  end
end

-- == waking ==}
-- {== tasks ==

-- `news` is what the next resume tells the task: false (the wait was not in vain) or { message =, code = }. Before it
-- begins, `co` is START and news its function, or that and its arguments. Between two runs of a parked task, `co` is
-- its job and news PARKED where the wait was not in vain. In the end news is OVER. Eight fields: with one more, a task
-- would take twice the memory, and what a busy server waits for is memory.
local START, PARKED, OVER = {}, {}, {}

local function new_task(co, news)
  return { co = co, slots = false, fd = false, link = false, deadline = false, age = 0, pos = false, news = news }
end

--- Makes f(...) a task. It starts in the next round. Any time, anywhere; never yields.
local function spawn(self, f, ...)
  local plain = select("#", ...) == 0 and type(f) == "function"
  local task = new_task(START, plain and f or pack(f, ...))
  self.alive = self.alive + 1
  push(self, task)
  return task
end

local function finish(self, task)
  if task.pos then remove_timer(self, task) end
  task.news = OVER
  self.alive = self.alive - 1
end

local function call(f, ...) f(...) end

-- Runs a task that has no coroutine, as yet or between two runs, in this one.
local function run_here(self, task, co)
  local job, news = task.co, task.news
  if news == OVER then return end -- parked, then raised: told already
  task.co, task.news = co, false
  if news == PARKED then job:resume(true)
  elseif job ~= START then job:resume(nil, news.message, news.code)
  elseif type(news) == "function" then news()
  else call(unpack(news, 1, news.n)) end
  if task.co == co then finish(self, task) end
end

-- The next in the queue, if it is a parked task of this round.
local function take_parked(self)
  local head, queue = self.head, self.queue
  local task = queue[head]
  if head >= self.stop or not task or task.news ~= PARKED then return false end
  queue[head], self.head, self.current = false, head + 1, task
  return true
end

-- A coroutine that runs one task after the other: making one costs more than the rest of spawn, and to leave and enter
-- one more than to look what else is to be done.
local function worker(self)
  local co = running()
  while true do
    run_here(self, self.current, co)
    if not take_parked(self) then yield(DONE) end
  end
end

local function idle_worker(self)
  local n = self.idle_count
  if n == 0 then return create(worker) end
  local co = self.idle[n]
  self.idle[n] = false
  self.idle_count = n - 1
  return co
end

local function default_on_error(_, traceback)
  io.stderr:write("partline: a task failed: ", traceback, "\n")
end

local function report(self, task, co, err)
  local traceback = debug.traceback(co, tostring(err))
  close_coroutine(co) -- runs what its <close> variables still owe
  if task.is_main then task.failed, task.err = true, err return end
  local ok, why = pcall(self.api.on_error or default_on_error, err, traceback, task)
  if not ok then default_on_error(nil, tostring(why) .. "\nwhile reporting: " .. traceback) end
end

-- After a resume that did not end in one of our waits: over, failed, or a bare yield, which lets others run.
local function after(self, task, co, ok, what)
  if not ok then
    if task.slots then leave(task) end
    finish(self, task)
    report(self, task, co, what)
  elseif what == DONE then
    local n = self.idle_count
    if n < MAX_IDLE then self.idle[n + 1], self.idle_count = co, n + 1 end
  else
    push(self, task)
  end
end

local function run_task(self, task)
  local co, news, outer = task.co, task.news, self.current
  if not co then task.done = true return end -- a nested wait: its round loop looks at this
  self.current = task
  local ok, what
  if not news then
    ok, what = resume(co, true)
  elseif news == PARKED or type(co) ~= "thread" then
    co = idle_worker(self)
    ok, what = resume(co, self)
  else
    task.news = false
    ok, what = resume(co, nil, news.message, news.code)
  end
  task = self.current -- a worker may have gone on to another one
  self.current = outer
  if what ~= WAIT then return after(self, task, co, ok, what) end
end

-- == tasks ==}
-- {== rounds ==

local function poller_of(self)
  local poller = self.poller
  if not poller then
    poller = assert(poll.new(self.backend))
    self.poller = poller
  end
  return poller
end

--- Seconds until the loop wants to run again: 0 when something can run, nil when only a descriptor can wake it.
local function timeout(self)
  if self.head < self.tail then return 0 end
  if self.timers == 0 then return nil end
  local left = self.times[1] - now()
  if left == math.huge then return nil end -- asleep until roused
  return left > 0 and left or 0
end

-- One round. All events go into the queue before the first task runs: a nested round may need one of them.
local function round(self, limit)
  local left = timeout(self)
  if limit and (not left or limit < left) then left = limit end
  local events = self.event_list
  local n, message = poller_of(self):wait(left, events)
  if not n then error("partline.loop: " .. message) end
  if n > 0 then dispatch(self, events, n) end
  if self.timers > 0 then fire_timers(self) end
  local stop, outer = self.tail, self.stop
  self.stop = stop
  while self.head < stop and self.head < self.tail do
    local head, queue = self.head, self.queue
    local task = queue[head]
    queue[head], self.head = false, head + 1
    run_task(self, task)
    self.stop = stop -- a nested round has another one
  end
  self.stop = outer
  rewind(self)
  return self.alive > 0
end

local function outside(self, name)
  if self.current then error("loop." .. name .. " called from one of the loop's own tasks", 3) end
end

--- One round: waits up to `limit` seconds (nil: as long as needed), runs what is ready. → true while tasks are left.
local function step(self, limit)
  outside(self, "step")
  if self.alive == 0 then return false end
  return round(self, limit)
end

--- Makes run() return after the current round. Tasks stay as they are.
local function stop(self)
  self.stopped = true
end

local function run_main(self, f, ...)
  local results
  local task = spawn(self, function(...) results = pack(f(...)) end, ...)
  task.is_main = true
  repeat round(self) until task.news == OVER or self.stopped
  if task.failed then error(task.err, 0) end
  if results then return unpack(results, 1, results.n) end
end

--- Without f: rounds until no task is left. With f: until f(...), as a task, has returned; → its results.
-- An error in f is raised here. Other tasks that are left go on in the next run or step.
local function run(self, f, ...)
  outside(self, "run")
  self.stopped = false
  if f then return run_main(self, f, ...) end
  while self.alive > 0 and not self.stopped do round(self) end
end

-- == rounds ==}
-- {== waiting ==

local function told(task)
  local why = task.cancelled
  task.cancelled = false
  return nil, why, "closed"
end

-- Enters the task as waiting for fd. → true | nil, message, code.
local function enter(self, task, slots, fd, mode)
  if not self.edge[fd] then
    local ok, message, code = poller_of(self):want(fd, mode)
    if not ok then return nil, message, code end
  end
  local other = slots[fd]
  if other then join(other, task) else slots[fd] = task end
  task.slots, task.fd = slots, fd
  return true
end

-- A wait in a coroutine the task made for itself cannot yield: whoever resumed it would get our yield. So the other
-- tasks run from here. Rounds inside rounds end last in, first out, and are limited; loop.wrap has neither drawback.
local function nest(self, task, waiter)
  self.depth, task.nested = self.depth + 1, waiter
  repeat round(self) until waiter.done
  self.depth, task.nested = self.depth - 1, false
  if waiter.pos then remove_timer(self, waiter) end
  local news = waiter.news
  if news then return nil, news.message, news.code end
  return true
end

-- May the task begin a nested round? → true | nil, message, code.
local function may_nest(self, task)
  if task.cancelled then return told(task) end
  if self.depth < MAX_NESTED then return true end
  return nil, "too many coroutines wait inside tasks: make them with loop.wrap", "nested-too-deep"
end

local function wait_elsewhere(self, slots, fd, mode, deadline)
  local task = self.current
  local state = slots[fd]
  if state == READY or state == ENDED then
    if state == READY then slots[fd] = false end
    return true
  end
  local waiter = new_task(false, false)
  local ok, message, code = may_nest(self, task)
  if ok then ok, message, code = enter(self, waiter, slots, fd, mode) end
  if not ok then return nil, message, code end
  if deadline then set_deadline(self, waiter, deadline) end
  return nest(self, task, waiter)
end

-- Is the running coroutine one whose yields reach the loop: the current task's, or made by loop.wrap inside it?
local function in_task(self, task)
  local co = running()
  return co == task.co or self.transparent[co]
end

--- Waits until fd can be read ("r") or written ("w"). → true | nil, message, "timeout" | nil, message, "closed".
-- deadline is absolute (loop.now()) or nil. May return true too early: callers repeat their system call in a loop.
-- `pass`: nothing is lacking, but the others should have their turn (a peer that sends without a pause).
-- Yields in a task, blocks the process elsewhere.
local function waiter_of(self)
  local readers, writers, edge, transparent = self.readers, self.writers, self.edge, self.transparent
  return function(fd, mode, deadline, pass)
    local slots = mode == "r" and readers or mode == "w" and writers
    if not slots then error('loop.wait: mode must be "r" or "w"', 2) end
    local task = self.current
    if not task then
      if pass then return true end
      return wait_until(fd, mode, deadline)
    end
    local co = running()
    if co ~= task.co and not transparent[co] then
      if pass then return true end
      return wait_elsewhere(self, slots, fd, mode, deadline)
    end
    if task.cancelled then return told(task) end
    if pass then push(self, task) return yield(WAIT) end
    local state = slots[fd]
    if state == READY then slots[fd] = false return true end
    if state == ENDED then return true end
    if not state and edge[fd] then
      slots[fd] = task
      task.slots, task.fd = slots, fd
    else
      local ok, message, code = enter(self, task, slots, fd, mode)
      if not ok then return nil, message, code end
    end
    if deadline then set_deadline(self, task, deadline) end
    return yield(WAIT)
  end
end

--- Ends this run of the current task, which keeps no coroutine: its function has to return at once. When fd can be read
-- or written, `job:resume(true)` is called as the same task; after the deadline, a cancel or a detach
-- `job:resume(nil, message, code)`. Without fd: when the others have had their turn. Never yields.
local function park_of(self)
  local readers, writers, edge = self.readers, self.writers, self.edge
  return function(job, fd, mode, deadline)
    local task = self.current
    if not task or running() ~= task.co then error("loop.park: not in a task's own coroutine", 2) end
    local slots = mode == "r" and readers or mode == "w" and writers
    if fd and not slots then error('loop.park: mode must be "r" or "w"', 2) end
    task.co, task.news = job, PARKED
    if task.cancelled then
      local _, message, code = told(task)
      return wake(self, task, message, code)
    end
    if not fd then return push(self, task) end
    local state = slots[fd]
    if state == READY or state == ENDED then
      if state == READY then slots[fd] = false end
      return push(self, task)
    end
    if not state and edge[fd] then
      slots[fd] = task
      task.slots, task.fd = slots, fd
    else
      local ok, message, code = enter(self, task, slots, fd, mode)
      if not ok then return wake(self, task, message, code) end
    end
    if deadline then set_deadline(self, task, deadline) end
  end
end

local function sleep_elsewhere(self, seconds)
  local task = self.current
  if not task then
    poll.sleep(seconds)
    return true
  end
  local ok, message, code = may_nest(self, task)
  if not ok then return nil, message, code end
  local waiter = new_task(false, false)
  waiter.slots = SLEEP
  set_deadline(self, waiter, now() + seconds)
  return nest(self, task, waiter)
end

--- Waits for a time in seconds; 0 lets every other ready task run once. → true | nil, message, "closed" when cancelled.
-- Yields in a task, blocks the process elsewhere.
local function sleep(self, seconds)
  if type(seconds) ~= "number" or seconds ~= seconds then error("loop.sleep: number expected", 2) end
  local task = self.current
  if not task or not in_task(self, task) then return sleep_elsewhere(self, seconds) end
  if task.cancelled then return told(task) end
  if seconds > 0 then
    task.slots = SLEEP
    set_deadline(self, task, now() + seconds)
  else
    push(self, task)
  end
  return yield(WAIT)
end

--- Tells a task to give up: its wait or sleep (the one it is in, else its next one) returns nil, why, "closed".
-- → true, or false when it has ended. Never yields.
local function cancel(self, task, why)
  if task.news == OVER then return false end
  local waiter = task.nested or task
  if waiter.slots then
    leave(waiter)
    wake(self, waiter, why or "cancelled", "closed")
  else
    task.cancelled = why or "cancelled"
  end
  return true
end

--- Ends a task's sleep early: it returns true. → whether the task was asleep; any other is left alone.
local function rouse(self, task)
  if task.news == OVER then return false end
  local waiter = task.nested or task
  if waiter.slots ~= SLEEP then return false end
  wake(self, waiter)
  return true
end

--- As coroutine.wrap, but a wait inside suspends the whole task and not only the coroutine.
local function wrap(self, f)
  local co = create(f)
  local go
  local function came(ok, first, ...)
    if not ok then
      close_coroutine(co)
      error(first, 0)
    end
    if first == WAIT then return go(yield(WAIT)) end
    return first, ...
  end
  function go(...)
    local task = self.current
    self.transparent[co] = task and in_task(self, task) or false
    return came(resume(co, ...))
  end
  return go
end

-- == waiting ==}
-- {== descriptors ==

local function clear_state(slots, fd)
  local state = slots[fd]
  if state == READY or state == ENDED then slots[fd] = false end
end

--- Registers a descriptor for good: waiting for it costs no system call any more. detach it before closing it.
-- → true | nil, message, code.
local function attach(self, fd)
  local edge, message, code = poller_of(self):attach(fd)
  if edge == nil then return nil, message, code end
  clear_state(self.readers, fd)
  clear_state(self.writers, fd)
  self.edge[fd] = edge
  return true
end

local function drop(self, slots, fd)
  local task = slots[fd]
  slots[fd] = nil
  if task and task ~= READY and task ~= ENDED then wake_all(self, task, "descriptor was closed", "closed") end
end

--- Forgets a descriptor, attached or not; tasks waiting for it get nil, message, "closed". Call it before closing.
local function detach(self, fd)
  drop(self, self.readers, fd)
  drop(self, self.writers, fd)
  self.edge[fd] = nil
  if self.poller then self.poller:detach(fd) end
end

-- == descriptors ==}

local methods = {
  spawn = spawn, sleep = sleep, attach = attach, detach = detach, run = run, step = step, stop = stop,
  timeout = timeout, cancel = cancel, rouse = rouse, wrap = wrap,

  --- Whether a task has ended, well or not. Never yields.
  finished = function(_, task) return task.news == OVER end,

  --- Whether a task is parked and its wait not over. Never yields.
  parked = function(_, task) return task.news == PARKED and task.slots ~= false end,

  --- The descriptor to watch from another loop, or nil (backend "poll").
  pollfd = function(self) return poller_of(self):fd() end,

  --- What to watch pollfd for: always "r".
  events = function() return "r" end,

  --- "epoll", "kqueue" or "poll".
  backend = function(self) return poller_of(self):backend() end,

  --- Gives the poller back to the system. Tasks that still wait are never woken.
  close = function(self)
    outside(self, "close")
    if self.poller then self.poller:close() end
    self.poller = nil
  end,
}

local function new_state(backend, api)
  return {
    api = api, backend = backend, poller = nil, event_list = {},
    queue = {}, head = 1, tail = 1,
    times = {}, ages = {}, sleepers = {}, timers = 0, age = 0,
    readers = {}, writers = {}, edge = {},       -- by descriptor; slots: false | READY | ENDED | first waiting task
    idle = {}, idle_count = 0, alive = 0, current = nil, depth = 0, stopped = false, stop = 0,
    transparent = setmetatable({}, { __mode = "k" }),
  }
end

-- Fills `api` with the functions of a fresh loop, called with a dot.
local function bind(api, backend)
  local self = new_state(backend, api)
  for name, method in pairs(methods) do
    api[name] = function(...) return method(self, ...) end
  end
  api.wait, api.park = waiter_of(self), park_of(self)
  --- The task that is running, also from coroutines inside it, or nil.
  api.running = function() return self.current end
  api.now = now
  api.deadline_in = function(seconds) return now() + seconds end
  return api
end

local loop = {}

--- An independent loop. backend: "epoll", "kqueue", "poll", or nil for the best. → loop | nil, message, code.
function loop.new(backend)
  local poller, message, code = poll.new(backend)
  if not poller then return nil, message, code end
  poller:close()
  return bind({}, backend)
end

return bind(loop)
