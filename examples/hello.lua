--- The smallest server: says hello, whoever asks.
--
--     lua5.4 examples/hello.lua [PORT]
--     curl http://127.0.0.1:8080/world

local partline = require("partline")

local function handler(request)
  local name = request.path:sub(2)
  return { status = 200, body = ("hello %s\n"):format(name ~= "" and name or "world") }
end

local server = assert(partline.server.start(handler, { port = tonumber(arg[1]) or 8080, log = io.stderr }))
print(("listening on http://%s:%d"):format(server.host, server.port))
io.stdout:flush()
server.wait()
