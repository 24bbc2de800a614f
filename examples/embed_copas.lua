--- The server inside a copas program: copas waits for the descriptor of its loop as for a socket of its own.
--
--     lua5.4 examples/embed_copas.lua [PORT]          needs copas (luarocks install copas)
--     curl http://127.0.0.1:8080/                     ours
--     nc 127.0.0.1 8081                               what copas serves on the next port: every line comes back

local copas = require("copas")
local partline = require("partline")
local socket = require("socket")

local lines = 0

local function handler()
  partline.sleep(0.01) -- partline's own waits work as ever
  return { body = ("copas has echoed %d lines\n"):format(lines) }
end

local port = tonumber(arg[1]) or 8080
local server = assert(partline.server.start(handler, { port = port }))

local function echo(sock)
  for line in function() return copas.receive(sock, "*l") end do
    lines = lines + 1
    copas.send(sock, line .. "\n")
  end
end

local listener = assert(socket.bind("127.0.0.1", port > 0 and port + 1 or 0))
copas.addserver(listener, echo)

-- copas waits for sockets. This stands for one: every second receive has something, after copas has waited for it.
local pollable = { waited = true }
function pollable.getfd() return server.pollfd() end
function pollable.dirty() return false end
function pollable.settimeout() return 1 end
function pollable.close() return 1 end
function pollable.receive(self)
  self.waited = not self.waited
  if self.waited then return "" end
  return nil, "timeout", ""
end

copas.addthread(function()
  while copas.receive(pollable, 1) do server.step(0) end
end)

print(("listening on http://%s:%d"):format(server.host, server.port))
print(("copas echoes lines on %s:%d"):format(listener:getsockname()))
io.stdout:flush()

-- copas.loop, but that it wakes when our loop has something to do.
while server.step(0) do copas.step(server.timeout()) end
