--- A Lua program in a process of its own that serves on the port it prints at the end of its first line.
--
--     local p = process.start("ulimit -n 64;", "spec/support/serve.lua", "hello")
--     p.port, p.pid, p:cpu(), p:resident(), p:stop()

local read = require("spec.support.files").read

local M = {}

local Process = {}
Process.__index = Process

--- Seconds of CPU used so far, or nil where /proc does not tell.
function Process:cpu()
  local stat = read(("/proc/%d/stat"):format(self.pid))
  if not stat then return nil end
  local fields = {}
  for field in stat:gsub("^.*%) ", ""):gmatch("%S+") do fields[#fields + 1] = field end
  return (fields[12] + fields[13]) / 100
end

--- KiB of memory it has, or nil.
function Process:resident()
  local status = read(("/proc/%d/status"):format(self.pid))
  return status and tonumber(status:match("VmRSS:%s*(%d+)"))
end

--- What it has printed.
function Process:output()
  return (read(self.out) or ""):match("\n(.*)") or ""
end

--- Ends it, and waits for that.
function Process:stop()
  if not self.input then return end
  if self.pid then os.execute(("kill %d 2>/dev/null"):format(self.pid)) end
  self.input:close()
  self.input = nil
  os.remove(self.out)
end

--- Closes its standard input and waits until it ends by itself: true when it did so in peace.
function Process:finish()
  local ok = self.input:close()
  self.input = nil
  os.remove(self.out)
  return ok
end

--- Starts `lua FILE ARGUMENT...` behind the shell commands `before`; nil, message when it does not come up.
function M.start(before, file, ...)
  local out = os.tmpname()
  local lua = os.getenv("LUA") or "lua5.4"
  local arguments = table.concat({ ... }, " ")
  local command = ("%s echo $$ > %s; exec %s %s %s >> %s"):format(before, out, lua, file, arguments, out)
  local input = assert(io.popen(command, "w"))
  local poll = require("partline.core").poll
  local self = setmetatable({ input = input, out = out }, Process)
  for _ = 1, 1000 do
    local pid, port = (read(out) or ""):match("^(%d+)\n[^\n]-(%d+)\n")
    if pid then
      self.pid, self.port = tonumber(pid), tonumber(port)
      return self
    end
    poll.sleep(0.01)
  end
  self:stop()
  return nil, "it does not come up"
end

return M
