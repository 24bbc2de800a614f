-- What the client's memory depends on: not on what comes, nor on what goes. Each measurement is a process of its own.

local memory = require "spec.support.memory"
local peers = require "spec.support.peers"

local UNDER = os.getenv("PARTLINE_UNDER")

local MIB = 1024 * 1024
local MOST = 6 * 1024 -- KiB above idle

-- Prints what `f` returns and the growth of the process's peak, in KiB.
local MEASURE = memory.PROBE .. [[
local client = require "partline.client"
require "partline.build"
collectgarbage() collectgarbage()
local idle = peak()
local function done(bytes) io.write(bytes, " ", peak() - idle) end
]]

local function measure(program, ...)
  local said = peers.lua({}, MEASURE .. program, ...)
  local bytes, kib = said:match("^(%d+) (%d+)$")
  assert.is_truthy(bytes, said)
  return tonumber(bytes), tonumber(kib)
end

describe("the client's memory", function()
  if UNDER or not io.open("/proc/self/status") then return pending("it cannot be told here") end

  it("does not grow with a chunk", function()
    local server = memory.chunk_server(64 * MIB)
    for _, how in ipairs { "body:copy(function() end)", "body:skip()" } do
      local bytes, kib = measure([[
        local body = assert(client.get(arg[1], { proxy = false, as = "stream" })).body
        done(]] .. how .. ")", server.url)
      assert.equal(64 * MIB, bytes)
      assert.is_true(kib <= MOST, how .. ": " .. kib .. " KiB")
    end
    server:stop()
  end)

  it("does not grow with an upload", function()
    local server = memory.upload_server()
    local dir = peers.directory()
    assert(os.execute(("truncate -s %d %s/file"):format(256 * MIB, dir)))
    for _, content in ipairs { "file", "function() return file:read(65536) end" } do
      local bytes, kib = measure([[
        local file = io.open(arg[2], "rb")
        local parts = { { name = "a", content = "1" }, { name = "f", filename = "x", content = ]] .. content .. [[ } }
        done(assert(client.post(arg[1], { proxy = false, multipart = parts })).body)
      ]], server.url, dir .. "/file")
      assert.equal(256 * MIB + 1, bytes)
      assert.is_true(kib <= MOST, content .. ": " .. kib .. " KiB")
    end
    peers.remove(dir)
    server:stop()
  end)
end)
