--- The server inside a cqueues program: its loop is one thread among others of the cqueues controller.
--
--     lua5.4 examples/embed_cqueues.lua [PORT]        needs cqueues (Debian: lua-cqueues)
--     curl http://127.0.0.1:8080/

local cqueues = require("cqueues")
local partline = require("partline")

local ticks = 0

local function handler()
  partline.sleep(0.01) -- partline's own waits work as ever
  return { body = ("cqueues has ticked %d times\n"):format(ticks) }
end

local server = assert(partline.server.start(handler, { port = tonumber(arg[1]) or 8080 }))
print(("listening on http://%s:%d"):format(server.host, server.port))
io.stdout:flush()

local controller = cqueues.new()

-- What cqueues polls: an object with these three methods.
local pollable = {
  pollfd = function() return server.pollfd() end,
  events = function() return server.events() end,
  timeout = function() return server.timeout() end,
}

controller:wrap(function()
  while server.step(0) do cqueues.poll(pollable) end
end)

controller:wrap(function() -- the program's own work
  while true do
    cqueues.sleep(0.1)
    ticks = ticks + 1
  end
end)

assert(controller:loop())
