--- A server that says what it is told to, in the same loop as the client that is tested.
--
--     scripted.with(scripted.always(scripted.OK), function(s)
--       assert.equal("ok", s.client.get(s.url).body)
--     end)

local client = require "partline.client"
local connection = require "partline.connection"
local loop = require "partline.loop"
local message = require "partline.message"
local transport = require "partline.transport.luasocket"

local scripted = {}

scripted.HEAD = "HTTP/1.1 200 OK\r\n"

local Script = {}
Script.__index = Script

-- Serves connections by `f(c, n)`, c a partline.connection, n its number. The client under test is `self.client`.
function scripted.start(f)
  local listener = assert(transport.listen { host = "127.0.0.1" })
  local _, port = listener:getsockname()
  local self = setmetatable({ listener = listener, port = port, url = "http://127.0.0.1:" .. port, count = 0 }, Script)
  self.pool = client.pool()
  self.client = client.new { proxy = false, pool = self.pool, head_timeout = 5, body_timeout = 5 }
  loop.spawn(function()
    while true do
      local conn = listener:accept()
      if not conn then return end
      self.count = self.count + 1
      loop.spawn(function(n)
        local c = connection.new(conn)
        f(c, n)
        c:close()
      end, self.count)
    end
  end)
  return self
end

function Script:close()
  self.listener:close()
  self.pool:close()
end

-- Runs `f(script)` in the loop, with a server as above.
function scripted.with(serve, f)
  loop.run(function()
    local script = scripted.start(serve)
    local ok, err = xpcall(f, function(e) return type(e) == "table" and e or debug.traceback(e, 2) end, script)
    script:close()
    collectgarbage() -- the next spec finds no descriptors of ours
    if not ok then error(err, 0) end
  end)
end

function scripted.request_of(c)
  return message.read_request(c.reader)
end

function scripted.say(c, bytes)
  c.writer:write(bytes)
  return c.writer:flush()
end

-- Answers every request on every connection with the same bytes; keeps what was asked.
function scripted.always(bytes, seen)
  return function(c)
    while true do
      local request = scripted.request_of(c)
      if not request then return end
      local body = request.body and request.body:read("a")
      if seen then seen[#seen + 1] = { head = request, body = body } end
      if not scripted.say(c, bytes) then return end
    end
  end
end

-- One answer and the end of the connection, in pieces.
function scripted.once(pieces)
  return function(c)
    local request = scripted.request_of(c)
    if request and request.body then request.body:skip() end
    for _, piece in ipairs(pieces) do
      if not scripted.say(c, piece) then return end
      if #pieces > 1 then loop.sleep(0) end
    end
  end
end

scripted.OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

return scripted
