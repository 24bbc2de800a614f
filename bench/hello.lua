-- The handler that bench/server.sh measures: lua5.4 bench/hello.lua PORT [SECONDS to sleep in it]
local partline = require "partline"

local port, delay = tonumber(arg[1]), tonumber(arg[2])

local function handler()
  if delay then partline.sleep(delay) end
  return { status = 200, body = "hello world" }
end

assert(partline.server.start(handler, { port = port })):wait()
