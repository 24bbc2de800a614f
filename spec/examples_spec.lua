-- The examples, started as a user starts them. (examples/upload.lua: upload_spec.lua.)

local process = require "spec.support.process"
local socket = require "socket"

-- Everything that a connection of its own brings back.
local function ask(port, bytes)
  local s = assert(socket.connect("127.0.0.1", port))
  s:settimeout(5)
  s:send(bytes)
  local got, message, part = s:receive("*a")
  s:close()
  return assert(got or part ~= "" and part, message)
end

local function get(port, path, fields)
  return ask(port, ("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n"):format(path, fields or ""))
end

local function put(port, path, body)
  local head = "PUT %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
  return ask(port, head:format(path, #body) .. body)
end

local function available(module, path)
  local lua = os.getenv("LUA") or "lua5.4"
  return (os.execute(("%s %s -e 'require \"%s\"' >/dev/null 2>&1"):format(path or "", lua, module)))
end

describe("examples/hello.lua", function()
  it("says hello", function()
    local p = assert(process.start("exec 2>/dev/null;", "examples/hello.lua", "0"))
    assert.matches("\r\n\r\nhello you\n$", get(p.port, "/you"))
    assert.matches("\r\n\r\nhello world\n$", get(p.port, "/"))
    p:stop()
  end)
end)

describe("examples/streaming.lua", function()
  local p
  setup(function() p = assert(process.start("", "examples/streaming.lua", "0")) end)
  teardown(function() p:stop() end)

  it("tells the time while it passes", function()
    local s = assert(socket.connect("127.0.0.1", p.port))
    s:settimeout(5)
    s:send("GET /clock HTTP/1.1\r\nHost: a\r\n\r\n")
    repeat local line = s:receive("*l") until line == ""
    assert.equal("9", s:receive("*l"))
    assert.matches("^%d%d:%d%d:%d%d$", s:receive("*l"))
    s:close()
  end)

  it("counts", function()
    local got = get(p.port, "/count?n=2500")
    assert.matches("\r\n1\n2\n3\n", got)
    assert.matches("\n999\n1000\n\r\n%x+\r\n1001\n", got)
    assert.matches("\n2500\n\r\n0\r\n\r\n$", got)
  end)

  it("turns a body into capitals", function()
    assert.matches("\r\n\r\n3\r\nABC\r\n0\r\n\r\n$", put(p.port, "/upper", "abc"))
  end)

  it("sums a body up, in the trailers too", function()
    local got = put(p.port, "/sum", ("x\n"):rep(100000))
    assert.matches("\r\n200000 bytes, 100000 lines\n\r\n0\r\n", got)
    assert.matches("X%-Bytes: 200000\r\n", got)
  end)

  it("knows nothing else", function()
    assert.matches("^HTTP/1.1 404 ", get(p.port, "/"))
  end)
end)

local OLD = 'LUA_PATH="$LUA_PATH;/usr/share/lua/5.2/?.lua"' -- where Debian has its copas

for name, path in pairs { cqueues = "", luv = "", copas = OLD } do
  describe("examples/embed_" .. name .. ".lua", function()
    it("serves, sleeps in handlers, and lets the other loop live", function()
      if not available(name, path) then return pending(name .. " is not installed") end
      local before = path == "" and "" or "export " .. path .. ";"
      local p = assert(process.start(before, ("examples/embed_%s.lua"):format(name), "0"))
      local first = get(p.port, "/")
      assert.matches("^HTTP/1%.1 200 ", first)
      if name == "copas" then
        local s = assert(socket.connect("127.0.0.1", tonumber(p:output():match("lines on .-:(%d+)"))))
        s:settimeout(5)
        s:send("one\ntwo\n")
        assert.equal("one", s:receive("*l"))
        assert.equal("two", s:receive("*l"))
        s:close()
      else
        socket.sleep(0.4)
      end
      local before_time = socket.gettime()
      local n = tonumber(get(p.port, "/"):match("\r\n\r\n.-(%d+)"))
      assert.is_true(n >= 2, n)
      local took = socket.gettime() - before_time
      assert.is_true(took >= 0.01 and took < 1, took)
      p:stop()
    end)
  end)
end
