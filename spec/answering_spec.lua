-- From a handler to a response, without a connection. The same through a server: server_spec.lua.

local answering = require "partline.answering"
local core = require "partline.core"
local reader = require "partline.reader"

local function serving(handler, opts)
  local told = {}
  opts = opts or {}
  opts.on_error = opts.on_error or function(err, request, trace) told[#told + 1] = { err, request, trace } end
  return { handler = handler, opts = opts, counts = { errors = {} } }, told
end

local REQUEST = { method = "GET", target = '/a"b\\\1\200', protocol_version = { minor = 1 } }

-- Status and body.
local function answer(self)
  local response = answering.call(self, REQUEST)
  return { response.status, response.body }
end

describe("call", function()
  it("makes a response of whatever a handler returns", function()
    local response = { status = 204 }
    assert.equal(response, answering.call(serving(function() return response end), REQUEST))
    local text = answering.call(serving(function() return "text" end), REQUEST)
    assert.same({ 200, "text", "text/plain; charset=utf-8" }, { text.status, text.body, text.headers["Content-Type"] })
    local r = reader.from_string("x")
    assert.same({ status = 200, body = r }, answering.call(serving(function() return r end), REQUEST))
  end)

  it("reports what is none", function()
    for _, result in ipairs { 5, true, print, io.stdout } do
      local self, told = serving(function() return result end)
      assert.equal(500, answering.call(self, REQUEST).status)
      assert.equal("the handler returned a " .. type(result) .. ", not a response", told[1][1])
    end
  end)

  it("reports what it raises, with a traceback and the request", function()
    local self, told = serving(function() error("broken") end)
    assert.same({ 500, "Internal Server Error\n" }, answer(self))
    assert.matches("broken\nstack traceback:", told[1][1])
    assert.equal(REQUEST, told[1][2])
    local mine = { status = 503, message = "busy", code = "mine" }
    self, told = serving(function() error(mine) end)
    assert.same({ 503, "Service Unavailable\n" }, answer(self))
    assert.equal(mine, told[1][1])
    assert.matches("^busy\nstack traceback:", told[1][3])
  end)

  it("passes on the status of error tables below 500", function()
    local self, told = serving(function() error { status = 404, message = "not here" } end)
    assert.same({ 404, "not here\n" }, answer(self))
    self = serving(function() error { status = 403, message = {} } end)
    assert.equal("Forbidden\n", answering.call(self, REQUEST).body)
    self = serving(function() core.text.raise("part 3 of secret", "too-many-parts") end)
    assert.same({ 413, "more parts than the limit\n" }, answer(self))
    assert.same({ ["too-many-parts"] = 1 }, self.counts.errors)
    assert.same({}, told)
  end)

  it("blames a body that failed before its handler", function()
    local body = reader.chunked(reader.from_string("zz\r\n"))
    local self, told = serving(function(request) return #request.body:read("a") end)
    local response = answering.call(self, { body = body })
    assert.same({ 400, "chunk size is not hexadecimal\n" }, { response.status, response.body })
    assert.same({ ["bad-chunk-size"] = 1 }, self.counts.errors)
    assert.same({}, told)
    body = reader.from_function(function() return nil, "ours", "source-failed" end)
    assert.equal(500, answering.call(self, { body = body }).status)
    assert.equal(1, #told)
  end)
end)

describe("log", function()
  it("is a line of the common log format with nothing that could break it", function()
    local line = answering.log_line("1.2.3.4", REQUEST, 200, 5)
    assert.matches("^1%.2%.3%.4 %- %- %[%d%d/%u%l%l/%d%d%d%d:%d%d:%d%d:%d%d %+0000%] ", line)
    assert.matches(' "GET /a\\x22b\\x5c\\x01\\xc8 HTTP/1%.1" 200 5$', line)
    assert.matches('"%-" 400 0$', answering.log_line("-", nil, 400, 0))
  end)

  it("goes to a file or a function", function()
    local file = io.tmpfile()
    answering.log(serving(nil, { log = file }), "-", nil, 400, 0)
    file:seek("set")
    assert.matches('400 0\n$', file:read("a"))
    file:close()
    local got
    answering.log(serving(nil, { log = function(...) got = { ... } end }), "-", REQUEST, 201, 7)
    assert.same({ REQUEST, 201, 7 }, { got[2], got[3], got[4] })
  end)
end)
