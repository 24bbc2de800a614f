--- Bodies in both directions, piece by piece: nothing here holds more than a piece in memory.
--
--     lua5.4 examples/streaming.lua [PORT]
--     curl -N http://127.0.0.1:8080/clock            a line every second, for ten seconds
--     curl -N http://127.0.0.1:8080/count?n=1000000  numbers, as fast as the client takes them
--     curl -T big.iso http://127.0.0.1:8080/upper    sends back what arrives, in capitals, while it arrives
--     curl -T big.iso http://127.0.0.1:8080/sum      counts bytes and lines; the sum comes as a trailer (curl -v)

local partline = require("partline")

local routes = {}

-- A stream writes when it has something to say. `write` waits for a slow client, and returns nil when it has gone.
function routes.clock()
  return { headers = { ["Content-Type"] = "text/plain" }, stream = function(write)
    for _ = 1, 10 do
      if not write(os.date("%H:%M:%S\n")) then return end
      partline.sleep(1)
    end
  end }
end

-- A function as body is asked for the next piece when the one before has been sent.
function routes.count(request)
  local n, most = 0, tonumber((request.query or ""):match("n=(%d+)")) or 10
  return { headers = { ["Content-Type"] = "text/plain" }, body = function()
    if n == most then return nil end
    local lines = {}
    for i = 1, math.min(1000, most - n) do lines[i] = n + i end
    n = n + #lines
    return table.concat(lines, "\n") .. "\n"
  end }
end

-- The request's body is read while the answer is written.
function routes.upper(request)
  local body = request.content or partline.reader.from_string("")
  return { body = function()
    local piece, message, code = body:read_some()
    if piece then return piece:upper() end
    return nil, message, code
  end }
end

-- What is known only at the end goes into the trailers.
function routes.sum(request)
  local bytes, lines = 0, 0
  return {
    stream = function(write)
      if request.content then
        assert(request.content:copy(function(piece)
          bytes = bytes + #piece
          lines = lines + select(2, piece:gsub("\n", "\n"))
        end))
      end
      write(("%d bytes, %d lines\n"):format(bytes, lines))
    end,
    trailers = function() return { ["X-Bytes"] = bytes, ["X-Lines"] = lines } end,
  }
end

local function handler(request)
  local route = routes[request.path:sub(2)]
  if route then return route(request) end
  return { status = 404, body = "try /clock /count /upper /sum\n" }
end

local server = assert(partline.server.start(handler, { port = tonumber(arg[1]) or 8080 }))
print(("listening on http://%s:%d"):format(server.host, server.port))
io.stdout:flush()
server.wait()
