--- The client beside LuaSocket's and curl: GET requests over keep-alive against nginx, per second of the client's CPU;
-- and what a large chunk and large uploads cost in memory.
--
--     lua5.4 bench/client.lua [requests]        (default 20000)
--
-- Needs nginx and curl; with taskset, once where nginx and the client have a core each, and once where they share one.
-- A client that has one request under way sleeps until the answer is there. On a core of its own it is charged with
-- falling asleep and being woken, which for every client is more than all the rest; so there is a floor in C.
-- The sizes of bodies: MIB=64 for the chunk, UPLOAD=1024 for the uploads, in the environment.

local memory = require "spec.support.memory"
local peers = require "spec.support.peers"

local n = tonumber(arg[1]) or 20000
local chunk_mib, upload_mib = tonumber(os.getenv("MIB")) or 64, tonumber(os.getenv("UPLOAD")) or 1024

local function line(...)
  print(("%-44s %14s %14s"):format(...))
end

-- Each program ends with a line: requests (or bytes), seconds of CPU, KiB above idle.
local COMMON = memory.PROBE .. [[
local idle, begun
local function begin()
  collectgarbage() collectgarbage()
  idle, begun = peak(), os.clock()
end
local function done(count)
  print(count, os.clock() - begun, peak() - idle)
end
]]

local programs = {}

programs["partline, blocking"] = [[
local client = require "partline.client"
assert(client.get(arg[1], { proxy = false }))
begin()
for _ = 1, arg[2] do assert(client.get(arg[1], { proxy = false }).body == "hello\n") end
done(arg[2])
]]

programs["partline, in the loop, 10 at a time"] = [[
local client, loop = require "partline.client", require "partline.loop"
local pool = client.pool { max_idle_per_host = 10 }
local opts = { proxy = false, pool = pool }
loop.run(function() assert(client.get(arg[1], opts)) end)
begin()
for _ = 1, 10 do
  loop.spawn(function()
    for _ = 1, arg[2] // 10 do assert(client.get(arg[1], opts).body == "hello\n") end
  end)
end
loop.run()
done(arg[2])
]]

programs["LuaSocket, socket.http (closes each time)"] = [[
local http = require "socket.http"
assert(http.request(arg[1]))
begin()
for _ = 1, arg[2] do assert(http.request(arg[1]) == "hello\n") end
done(arg[2])
]]

programs["LuaSocket, by hand over one connection"] = [[
local socket = require "socket"
local host, port = arg[1]:match("//([^:/]+):(%d+)")
local s = assert(socket.connect(host, port))
s:setoption("tcp-nodelay", true)
local request = "GET /hello.txt HTTP/1.1\r\nHost: " .. host .. "\r\n\r\n"
begin()
for _ = 1, arg[2] do
  s:send(request)
  local length
  repeat
    local l = s:receive("*l")
    length = l:match("^Content%-Length: (%d+)") or length
  until l == ""
  assert(s:receive(tonumber(length)) == "hello\n")
end
done(arg[2])
]]

programs["discarded by a sink"] = [[
local client = require "partline.client"
begin()
local body = assert(client.get(arg[1], { proxy = false, as = "stream" })).body
done(assert(body:copy(function() end)))
]]

programs["multipart from a file"] = [[
local client = require "partline.client"
require "partline.build"
local file = io.open(arg[2], "rb")
begin()
local response = assert(client.post(arg[1], { proxy = false, multipart = {
  { name = "note", content = "1" }, { name = "file", filename = "x", content = file },
} }))
done(response.body)
]]

programs["multipart from a function"] = [[
local client = require "partline.client"
require "partline.build"
local file = io.open(arg[2], "rb")
begin()
local response = assert(client.post(arg[1], { proxy = false, multipart = {
  { name = "note", content = "1" },
  { name = "file", filename = "x", content = function() return file:read(65536) end },
} }))
done(response.body)
]]

local function output(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local said = pipe:read("a")
  if not pipe:close() then error(command .. ": " .. said) end
  return said
end

local dir = peers.directory()

-- Requests (or bytes), seconds of CPU, KiB above idle. `where`: what the command begins with.
local function measure(where, name, ...)
  local path = peers.write(dir .. "/program.lua", COMMON .. programs[name])
  local said = output(table.concat({ where .. (os.getenv("LUA") or "lua5.4"), path, ... }, " "))
  local count, cpu, kib = said:match("(%S+)%s+(%S+)%s+(%S+)%s*$")
  return tonumber(count), tonumber(cpu), tonumber(kib)
end

local function rate(where, name, url, how_many)
  local count, cpu, kib = measure(where, name, url, how_many)
  line(name, ("%.0f"):format(count / cpu), kib .. " KiB")
  return count / cpu
end

-- User and system seconds of one curl process that asks again and again over one connection.
local function curl(where, url, how_many)
  local command = [[bash -c 'TIMEFORMAT="%%U %%S"; time %scurl -s -o /dev/null "%s?[1-%d]"']]
  local user, system = output(command:format(where, url, how_many)):match("(%S+)%s+(%S+)")
  line("curl, one process, one connection", ("%.0f"):format(how_many / (user + system)), "")
end

local function floor(where, port, how_many)
  local count, cpu = output(("%s%s/floor %d %d 6"):format(where, dir, port, how_many)):match("(%S+)%s+(%S+)")
  line("C, send and recv, nothing parsed", ("%.0f"):format(count / cpu), "")
end

local function requests(nginx, title, where)
  local url = nginx.url .. "/hello.txt"
  line("GET of 6 bytes from nginx, " .. title, "per CPU second", "above idle")
  local blocking = rate(where, "partline, blocking", url, n)
  local inside = rate(where, "partline, in the loop, 10 at a time", url, n)
  rate(where, "LuaSocket, by hand over one connection", url, n)
  local theirs = rate(where, "LuaSocket, socket.http (closes each time)", url, math.min(n, 5000))
  curl(where, url, n)
  floor(where, nginx.url:match(":(%d+)$"), n)
  print(("partline is %.1f times socket.http in the loop, %.1f times when it blocks\n"):format(inside / theirs,
    blocking / theirs))
end

-- Each program starts where `taskset` puts it; nginx stays where this one was started: on core 0, by the Makefile.
local function all_requests()
  local nginx = assert(peers.nginx([[
    server { listen 127.0.0.1:PORT; root DIR/root; keepalive_requests 100000000; }
  ]], { ["hello.txt"] = "hello\n" }))
  output(("%s -O2 -o %s/floor bench/client_floor.c"):format(os.getenv("CC") or "cc", dir))
  local pinned = output("taskset -p $$ || true"):match("mask: 1%s")
  if pinned then
    requests(nginx, "on two cores", "taskset -c 1 ")
    requests(nginx, "on one core", "taskset -c 0 ")
  else
    requests(nginx, "wherever", "")
  end
  nginx:stop()
end

local function bodies()
  line("peak memory", "MB per CPU s", "above idle")
  local function show(name, what, ...)
    local bytes, cpu, kib = measure("", name, ...)
    line(what .. name, ("%.0f"):format(bytes / cpu / 1e6), kib .. " KiB")
  end
  local server = memory.chunk_server(chunk_mib << 20)
  show("discarded by a sink", ("one chunk of %d MiB "):format(chunk_mib), server.url)
  server:stop()
  server = memory.upload_server()
  local path = os.tmpname()
  assert(os.execute(("truncate -s %dM %s && cat %s >/dev/null"):format(upload_mib, path, path))) -- in the page cache
  show("multipart from a file", ("%d MiB, "):format(upload_mib), server.url, path)
  show("multipart from a function", ("%d MiB, "):format(upload_mib), server.url, path)
  os.remove(path)
  server:stop()
end

all_requests()
bodies()
peers.remove(dir)
