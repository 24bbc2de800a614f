--- The server inside a libuv program: a poll handle and a timer call its loop when there is something to do.
--
--     lua5.4 examples/embed_luv.lua [PORT]            needs luv (Debian: lua-luv)
--     curl http://127.0.0.1:8080/

local uv = require("luv")
local partline = require("partline")

local ticks = 0

local function handler()
  partline.sleep(0.01) -- partline's own waits work as ever
  return { body = ("libuv has ticked %d times\n"):format(ticks) }
end

local server = assert(partline.server.start(handler, { port = tonumber(arg[1]) or 8080 }))
print(("listening on http://%s:%d"):format(server.host, server.port))
io.stdout:flush()

local poll, timer = uv.new_poll(server.pollfd()), uv.new_timer()

-- One round now; the next one when the descriptor is readable or the time has come, whichever is first.
local function step()
  server.step(0)
  local seconds = server.timeout()
  timer:stop()
  if seconds then timer:start(math.ceil(seconds * 1000), 0, step) end
end

poll:start("r", step)
step()

uv.new_timer():start(100, 100, function() ticks = ticks + 1 end) -- the program's own work

uv.run()
