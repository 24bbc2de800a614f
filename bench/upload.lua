--- A 1 GiB multipart upload by curl: throughput, server CPU and memory of examples/upload.lua, discarded and saved,
-- beside C sinks that only receive, that also look for the boundary, and that write a file. The sender has one core,
-- the server the other.
--
--     lua5.4 bench/upload.lua [MiB]        (default 1024; make bench-upload)

local poll = require("partline.core").poll
local files = require("spec.support.files")
local peers = require("spec.support.peers")

local mib = tonumber(arg[1]) or 1024
local lua = os.getenv("LUA") or "lua5.4"
local dir = os.getenv("TMPDIR") or "/tmp"
local work = ("%s/partline-upload-%d"):format(dir, math.floor(poll.now() * 1000))

local function run(command)
  local pipe = assert(io.popen(command, "r"))
  local out = pipe:read("a")
  pipe:close()
  return out
end

-- Starts a program on the first core in the background; → its process.
local function start(command)
  return (run(("taskset -c 0 %s > %s/out 2>&1 & echo $!"):format(command, work)):gsub("%s", ""))
end

-- CPU seconds used so far, user and system.
local function cpu(pid)
  local stat = assert(files.read("/proc/" .. pid .. "/stat")):match("%) (.*)")
  local i, total = 0, 0
  for word in stat:gmatch("%S+") do
    i = i + 1
    if i == 12 or i == 13 then total = total + tonumber(word) end
  end
  return total / 100
end

local function memory(pid, key)
  return tonumber((files.read("/proc/" .. pid .. "/status") or ""):match(key .. ":%s+(%d+)")) / 1024
end

local function wait_for(port)
  for _ = 1, 200 do
    local socket = require("socket").connect("127.0.0.1", port)
    if socket then socket:close() return end
    poll.sleep(0.02)
  end
  error("nothing listens on port " .. port)
end

local function upload(file, port)
  local curl = "taskset -c 1 curl -s -o /dev/null -w '%%{time_total}' -H 'Expect:' -F note=x -F 'file=@%s' "
    .. "http://127.0.0.1:%d/upload"
  return tonumber(run(curl:format(file, port)))
end

local function measure(name, command, file, small, port)
  local pid = start(command:gsub("PORT", port))
  wait_for(port)
  upload(small, port) -- so that idle memory is that of a server that has worked
  local idle, before = memory(pid, "VmRSS"), cpu(pid)
  local seconds = upload(file, port)
  local used, peak = cpu(pid) - before, memory(pid, "VmHWM")
  os.execute(("kill %s; sleep 0.1"):format(pid))
  local row = "%-28s %8.0f MB/s %8.2f s CPU %8.2f MiB idle %8.2f MiB peak"
  print(row:format(name, mib * 1.048576 / seconds, used, idle, peak))
  return mib * 1.048576 / seconds, used, peak - idle
end

assert(os.execute(("mkdir -p %s build/bench && cc -O2 -D_GNU_SOURCE -o build/bench/sink bench/sink.c"):format(work)))
local file, small = work .. "/big", work .. "/small"
assert(os.execute(("head -c %d /dev/urandom > %s && head -c 1000000 /dev/urandom > %s"):format(
  math.floor(mib * 1048576), file, small)))

local ours = lua .. " examples/upload.lua --quiet --port PORT --dir " .. work
print(("%d MiB in one part, %s"):format(mib, run("uname -m"):gsub("%s", "")))
local sink = measure("C sink", "build/bench/sink PORT", file, small, peers.free_port())
measure("C sink with boundary scan", "build/bench/sink PORT scan", file, small, peers.free_port())
local discarded = measure("partline, discarded", ours .. " --discard", file, small, peers.free_port())
os.execute(("cp %s %s/warm && rm %s/warm"):format(file, work, work)) -- the file system's first pages cost more
local writing_sink = "build/bench/sink PORT " .. work .. "/sink"
local written = measure("C sink that writes a file", writing_sink, file, small, peers.free_port())
os.remove(work .. "/sink")
local saved = measure("partline, saved", ours, file, small, peers.free_port())
print(("throughput: discarded %.2f of the sink's, saved %.2f of the writing sink's"):format(discarded / sink,
  saved / written))
local sum = run(("cat %s/big-* %s/big.* 2>/dev/null | sha256sum | cut -c1-64"):format(work, work))
print(run(("sha256sum < %s | cut -c1-64"):format(file)) == sum and "saved bytes: right" or "saved bytes: see " .. work)
os.execute("rm -rf " .. work)
