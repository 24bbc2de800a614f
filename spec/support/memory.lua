--- What the client costs in memory: a probe for the program that is measured, and the servers that it talks to.

local peers = require "spec.support.peers"

local M = {}

--- Lua code, to begin the program with: `peak()`, the most memory that its process has had so far, in KiB.
M.PROBE = [[
local function peak()
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^VmHWM:%s*(%d+)")
    if kib then return tonumber(kib) end
  end
end
]]

local CHUNK_SERVER = [[
local socket = require "socket"
local listener = assert(socket.bind("127.0.0.1", arg[1]))
local size, piece = tonumber(arg[2]), ("x"):rep(65536)
while true do
  local c = listener:accept()
  local line
  repeat line = c:receive("*l") until not line or line == ""
  if line then
    c:send(("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n"):format(size))
    for _ = 1, size // 65536 do c:send(piece) end
    c:send("\r\n0\r\n\r\n")
  end
  c:close()
end
]]

local UPLOAD_SERVER = [[
local srv = assert(require("partline.server").start(function(request)
  local n = 0
  for part in request.parts do n = n + part.content:skip() end
  return tostring(n)
end, { port = tonumber(arg[1]) }))
srv.wait()
]]

--- Answers each request with one chunk of so many bytes, a multiple of 64 KiB. → peer
function M.chunk_server(bytes)
  return assert(peers.lua_server(CHUNK_SERVER, bytes))
end

--- Answers a form with how many bytes its parts have. → peer
function M.upload_server()
  return assert(peers.lua_server(UPLOAD_SERVER))
end

return M
