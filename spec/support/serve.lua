-- A server in a process of its own, for specs that count its descriptors, memory and CPU time:
--     lua5.4 spec/support/serve.lua [HANDLER]
-- Prints its port, then serves until its standard input ends. HANDLER: hello (default) or soak.

local partline = require "partline"
local loop = require "partline.loop"

local handlers = {}

function handlers.hello()
  return { status = 200, body = "hello world" }
end

local server

-- What spec/soak_spec.lua asks for: /big streams 8 MiB, /parts and /body tell what arrived, /early leaves the body,
-- /stats tells the memory after a collection, connections and requests.
function handlers.soak(request)
  local path = request.path
  if path == "/slow" then
    partline.sleep(0.02)
  elseif path == "/big" then
    local piece = ("x"):rep(65536)
    return { stream = function(write)
      for _ = 1, 128 do
        if not write(piece) then return end
      end
    end }
  elseif path == "/fail" then
    error("on purpose")
  elseif path == "/parts" then
    local sizes = {}
    for part in request.parts do sizes[#sizes + 1] = ("%s=%d"):format(part.name, assert(part.content:skip())) end
    return table.concat(sizes, " ")
  elseif path == "/body" then
    return tostring(assert(request.body:skip()))
  elseif path == "/early" then
    return "early"
  elseif path == "/echo" then
    return { body = request.body }
  elseif path == "/stats" then
    collectgarbage()
    collectgarbage()
    local stats = server.stats()
    return ("%d %d %d"):format(math.ceil(collectgarbage("count")), stats.connections, stats.requests)
  end
  return "ok"
end

server = assert(partline.server.start(handlers[arg[1] or "hello"], {
  on_error = function() end, head_timeout = 2, body_timeout = 2, idle_timeout = 120, write_timeout = 2,
}))
print(server.port)
io.stdout:flush()

loop.spawn(function()
  loop.wait(0, "r") -- standard input
  os.exit(0, true)
end)
server.wait()
