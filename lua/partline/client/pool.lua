--- Connections between two requests, by where they lead: how many are kept, for how long, and which are still alive.
-- @module partline.client.pool

local default_loop = require("partline.loop")
local options = require("partline.options")

local pool = {}

local defaults = {
  max_idle = 64,          -- connections that wait for their next request
  max_idle_per_host = 8,
  idle_timeout = 30,      -- seconds; a server's Keep-Alive field may shorten it
}

---@class partline.Pool
local Pool = {}
Pool.__index = Pool

local now = default_loop.now

local FRESH = 0.005 -- seconds

--- Makes a pool: `max_idle` (64), `max_idle_per_host` (8), `idle_timeout` in seconds (30).
---@param opts table?
---@return partline.Pool
function pool.new(opts)
  local self = options.read(opts, defaults)
  self.idle, self.lent, self.count, self.swept = {}, {}, 0, now()
  return setmetatable(self, Pool)
end

-- A server that speaks unasked, or has closed, is no good. One system call tells; in a quick succession it is spared,
-- unless the request can be sent only once.
local function alive(c, careful)
  local time = now()
  if not c.conn.sock or time >= c.expires then return false end
  if not careful and time - c.since < FRESH then return true end
  local _, _, code = c.conn:recv(1)
  return code == "timeout"
end

local function remove(self, key, i)
  local list = self.idle[key]
  local n = #list
  local c = list[i or n]
  if not i or i == n then list[n] = nil else table.remove(list, i) end
  self.count = self.count - 1
  c.idle = false
  return c
end

-- A connection whose body was read to its end is free, although nobody has said so.
local function reclaim(self, key)
  for c in pairs(self.lent[key]) do
    local body = c.borrowed[1]
    if body and body:status() == "ended" then
      body:on_close(nil)
      self:back(c, true)
    end
  end
end

--- A live connection for the key, or nil; `wanted` is taken when it is free. `careful`: it must not prove dead later.
---@param key string
---@param wanted table?
---@param careful boolean?
function Pool:take(key, wanted, careful)
  if self.lent[key] then reclaim(self, key) end
  local list = self.idle[key]
  if not list then return nil end
  if wanted and wanted.idle and wanted.key == key then
    for i, c in ipairs(list) do
      if c == wanted then
        remove(self, key, i)
        if alive(c, careful) then return c end
        c:close()
        break
      end
    end
  end
  for i = #list, 1, -1 do
    local c = list[i]
    list[i], c.idle = nil, false
    self.count = self.count - 1
    if alive(c, careful) then return c end
    c:close()
  end
  return nil
end

-- Closes what has waited too long, and the oldest when there are too many.
local function sweep(self, time)
  self.swept = time
  local oldest, oldest_key
  for key, list in pairs(self.idle) do
    while list[1] and list[1].expires <= time do remove(self, key, 1):close() end
    if not list[1] then
      self.idle[key] = nil
    elseif not oldest or list[1].expires < oldest then
      oldest, oldest_key = list[1].expires, key
    end
  end
  if self.count > self.max_idle and oldest_key then remove(self, oldest_key, 1):close() end
end

--- Takes a connection back, between two messages. `time`: now, if known.
---@param c table
---@param time number?
function Pool:give(c, time)
  local key = c.key
  local lent = self.lent[key]
  if lent then lent[c] = nil end
  if self.closed or not c.conn.sock or c.reader:idle() > 0 then return c:close() end
  local wait = self.idle_timeout
  time = time or now()
  if c.promised and c.promised < wait then wait = c.promised end
  c.idle, c.since, c.expires = true, time, time + wait
  local list = self.idle[key]
  if not list then
    list = {}
    self.idle[key] = list
  end
  local n = #list + 1
  list[n] = c
  self.count = self.count + 1
  if n > self.max_idle_per_host then remove(self, key, 1):close() end
  if time - self.swept >= 1 or self.count > self.max_idle then sweep(self, time) end
end

--- A lent connection is free: `whole`, whether its body was read to the end.
function Pool:back(c, whole)
  local lent = self.lent[c.key]
  if not lent or not lent[c] then return end
  lent[c] = nil
  if not next(lent) then self.lent[c.key] = nil end
  if whole and c.reusable then return self:give(c) end
  c:close()
end

--- The body of a response has the connection until it is read or closed, or nobody knows it any more.
---@param c table
---@param body partline.Reader
function Pool:lend(c, body)
  local lent = self.lent[c.key] or {}
  self.lent[c.key] = lent
  lent[c] = true
  c.borrowed = setmetatable({ body }, { __mode = "v" })
  body:on_close(function(whole) self:back(c, whole) end)
end

--- Closes all that is idle, and every other connection when it comes back.
function Pool:close()
  self.closed = true
  for key, list in pairs(self.idle) do
    while list[1] do remove(self, key):close() end
  end
end

--- Numbers of connections: `idle`, and `lent` to bodies that are still read.
function Pool:stats()
  local lent = 0
  for _, set in pairs(self.lent) do
    for _ in pairs(set) do lent = lent + 1 end
  end
  return { idle = self.count, lent = lent }
end

return pool
