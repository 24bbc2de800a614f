--- The timers of a loop: a binary heap in three arrays, by time, then age. A task has one entry at most and knows where
-- (`task.pos`). Functions take the loop's state: `times`, `ages`, `sleepers`, `timers` (how many), `age` (the last).
-- @module partline.loop.timers

local timers = {}

local function place(self, i, time, age, task)
  self.times[i], self.ages[i], self.sleepers[i] = time, age, task
  task.pos = i
end

local function sift_up(self, i, time, age, task)
  local times, ages = self.times, self.ages
  while i > 1 do
    local up = i // 2
    local t = times[up]
    if t < time or t == time and ages[up] < age then break end
    place(self, i, t, ages[up], self.sleepers[up])
    i = up
  end
  place(self, i, time, age, task)
end

local function sift_down(self, i, time, age, task)
  local times, ages, n = self.times, self.ages, self.timers
  while true do
    local down = 2 * i
    if down > n then break end
    if down < n then
      local a, b = times[down], times[down + 1]
      if b < a or b == a and ages[down + 1] < ages[down] then down = down + 1 end
    end
    local t = times[down]
    if time < t or time == t and age < ages[down] then break end
    place(self, i, t, ages[down], self.sleepers[down])
    i = down
  end
  place(self, i, time, age, task)
end

--- Takes a task's entry out; it has one.
function timers.remove(self, task)
  local i, n = task.pos, self.timers
  local time, age, last = self.times[n], self.ages[n], self.sleepers[n]
  self.sleepers[n] = false
  self.timers = n - 1
  task.pos = false
  if i == n then return end
  sift_up(self, i, time, age, last)
  if last.pos == i then sift_down(self, i, time, age, last) end
end

--- Sets a task's deadline. A later one than before leaves the entry in place: it fires early, looks, and goes back. So
-- renewing a timeout is free.
---@param deadline number as of poll.now()
function timers.set(self, task, deadline)
  local age, pos = self.age + 1, task.pos
  self.age = age
  task.deadline, task.age = deadline, age
  if not pos then
    assert(deadline == deadline, "deadline is not a number")
    self.timers = self.timers + 1
    sift_up(self, self.timers, deadline, age, task)
  elseif deadline < self.times[pos] then
    sift_up(self, pos, deadline, age, task)
  end
end

--- The first entry goes back to where its task's deadline puts it.
function timers.postpone(self, task)
  sift_down(self, 1, task.deadline, task.age, task)
end

return timers
