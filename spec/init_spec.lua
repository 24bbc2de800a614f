local partline = require "partline"

local LUA = os.getenv("LUA") or "lua5.4"

-- What a fresh Lua prints.
local function fresh(code)
  local pipe = assert(io.popen(("%s -e '%s' 2>&1"):format(LUA, code)))
  local out = pipe:read("a")
  pipe:close()
  return out
end

describe("partline", function()
  it("has a version", function()
    assert.is_truthy(partline._VERSION:find("^partline %d+%.%d+%.%d+$"))
  end)

  it("gives its submodules, the same ones as require", function()
    for _, name in ipairs { "reader", "headers", "message", "multipart", "loop", "server", "connection" } do
      assert.equal(require("partline." .. name), partline[name], name)
    end
  end)

  it("gives the loop's sleep, spawn and run", function()
    for _, name in ipairs { "sleep", "spawn", "run" } do
      assert.equal(require("partline.loop")[name], partline[name])
    end
  end)

  it("has nothing under other names", function()
    assert.is_nil(partline.no_such_module)
    assert.is_nil(partline[1])
    assert.is_nil(partline.transport)
  end)

  it("loads submodules on first use only", function()
    assert.equal("true\tfalse\tfalse\ttrue\n", fresh([[
      local p = require "partline"
      local l = package.loaded
      print(l["partline.core"] ~= nil, l["partline.reader"] ~= nil, l["partline.server"] ~= nil,
        p.reader == require "partline.reader")]]))
  end)

  it("works without LuaSocket as long as there is no socket", function()
    assert.equal("GET\t/x\tbody\n", fresh([[
      package.preload["socket"] = function() error("LuaSocket was loaded") end
      package.preload["socket.core"] = package.preload["socket"]
      local p = require "partline"
      local text = "GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
      local request = p.message.read_request(p.reader.from_string(text))
      print(request.method, request.target, request.content:read("a"))]]))
  end)
end)

describe("partline.errors", function()
  it("tells status and text of every code of the design", function()
    local codes = [[bad-request-line bad-request-target bad-version bad-header bad-header-name bad-header-value
      bad-line-ending obs-fold bad-host header-too-large uri-too-long bad-content-length conflicting-length te-and-cl
      bad-transfer-encoding unsupported-transfer-encoding bad-chunk-size chunk-size-overflow bad-chunk-ext
      chunk-ext-too-large bad-chunk-terminator bad-trailer trailer-too-large unexpected-eof body-too-large no-boundary
      duplicate-boundary invalid-boundary boundary-too-long bad-content-type bad-first-boundary bad-disposition
      missing-disposition missing-name too-many-parts too-many-parameters stale-part closed timeout
      invalid-header-value invalid-request-line]]
    for code in codes:gmatch("%S+") do
      local entry = partline.errors[code]
      assert.is_table(entry, code)
      assert.is_string(entry.text)
    end
  end)

  it("has statuses that a server may answer with, and texts on one line", function()
    local count = 0
    for code, entry in pairs(partline.errors) do
      count = count + 1
      assert.is_truthy(code:find("^%l[%l%-]*%l$"), code)
      assert.is_true(math.type(entry.status) == "integer" and entry.status >= 400 and entry.status <= 599, code)
      assert.is_truthy(entry.text:find("^%g[%g ]*%g$"), code)
    end
    assert.is_true(count >= 42)
  end)

  it("gives the statuses of the design's table of limits", function()
    for code, status in pairs {
      ["header-too-large"] = 431, ["uri-too-long"] = 414, ["body-too-large"] = 413, ["chunk-ext-too-large"] = 413,
      ["trailer-too-large"] = 431, ["boundary-too-long"] = 400, ["too-many-parts"] = 413, ["too-many-parameters"] = 413,
      timeout = 408, ["unsupported-transfer-encoding"] = 501, ["te-and-cl"] = 400, ["stale-part"] = 500, closed = 500,
    } do
      assert.equal(status, partline.errors[code].status, code)
    end
  end)
end)
