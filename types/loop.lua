---@meta partline.loop

---A task. Opaque; compare it, use it as a key, pass it to `cancel`.
---@class partline.loop.Task

---@alias partline.loop.Mode "r" | "w"
---@alias partline.loop.Backend "epoll" | "kqueue" | "poll"

---Coroutine scheduler. Functions are called with a dot.
---@class partline.Loop
---@field on_error? fun(err: any, traceback: string, task: partline.loop.Task) called when a task raises
local loop = {}

---Makes f(...) a task; it starts in the next round.
---@param f function
---@param ... any
---@return partline.loop.Task
function loop.spawn(f, ...) end

---Waits until fd is readable or writable; may return true too early. Yields in a task, blocks elsewhere.
---@param fd integer
---@param mode partline.loop.Mode
---@param deadline? number absolute, on `now()`
---@param pass? boolean nothing is awaited: the others have their turn
---@return true? ok
---@return string? message
---@return ("timeout" | "closed" | string)? code
function loop.wait(fd, mode, deadline, pass) end

---Yields in a task, blocks elsewhere. 0 lets the other ready tasks run once.
---@param seconds number
---@return true? ok
---@return string? message
---@return string? code
function loop.sleep(seconds) end

---Registers fd once, so that waiting costs no system call.
---@param fd integer
---@return true? ok
---@return string? message
---@return string? code
function loop.attach(fd) end

---Forgets fd and wakes who waits for it with "closed". Call it before closing.
---@param fd integer
function loop.detach(fd) end

---Runs until no task is left; with f until f(...) has returned.
---@param f? function
---@param ... any
---@return any ... results of f
function loop.run(f, ...) end

---One round.
---@param seconds? number the longest to wait; nil: as long as needed
---@return boolean tasks_left
function loop.step(seconds) end

---Makes run() return after this round.
function loop.stop() end

---@return partline.loop.Task?
function loop.running() end

---Whether a task has ended, well or not.
---@param task partline.loop.Task
---@return boolean
function loop.finished(task) end

---The task's wait or sleep returns nil, why, "closed".
---@param task partline.loop.Task
---@param why? string default "cancelled"
---@return boolean alive
function loop.cancel(task, why) end

---What a parked task goes on with: called as `job:resume(true)` or `job:resume(nil, message, code)`.
---@class partline.loop.Job
---@field resume fun(self: partline.loop.Job, ok: true?, message: string?, code: partline.Code?)

---Ends this run of the current task, whose function returns at once; see doc/loop.md. Never yields.
---@param job partline.loop.Job
---@param fd? integer | false
---@param mode? "r" | "w"
---@param deadline? number
function loop.park(job, fd, mode, deadline) end

---Whether a task is parked and its wait not over.
---@param task partline.loop.Task
---@return boolean
function loop.parked(task) end

---Ends the task's sleep early; it returns true.
---@param task partline.loop.Task
---@return boolean was_asleep
function loop.rouse(task) end

---coroutine.wrap for use inside tasks: a wait in f suspends the whole task.
---@param f function
---@return function
function loop.wrap(f) end

---@return integer? fd to watch from another loop; nil with backend "poll"
function loop.pollfd() end

---@return "r"
function loop.events() end

---@return number? seconds until the loop wants to run; nil: only a descriptor can wake it
function loop.timeout() end

---@return number seconds, monotonic
function loop.now() end

---@param seconds number
---@return number deadline
function loop.deadline_in(seconds) end

---@return partline.loop.Backend
function loop.backend() end

---Gives the poller back; tasks that still wait are never woken.
function loop.close() end

---The module: the default loop, and the maker of others.
---@class partline.LoopModule: partline.Loop
local module = {}

---@param backend? partline.loop.Backend
---@return partline.Loop? loop
---@return string? message
---@return string? code
function module.new(backend) end

return module
