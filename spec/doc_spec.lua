-- The documents must not drift: their examples run and print what they say, and errors.md lists what there is.

local partline = require "partline"
local options = require "partline.options"
local read = require("spec.support.files").read

-- Pages whose examples are programs; those of the others must compile.
local RUN = {
  reader = true, headers = true, message = true, multipart = true, options = true, errors = true,
  url = true, build = true, form = true, parser = true,
}

local function pages()
  local pipe = assert(io.popen("ls README.md doc/*.md"))
  local paths = {}
  for path in pipe:lines() do paths[#paths + 1] = path end
  pipe:close()
  return paths
end

-- The lua blocks of a page, with empty lines before them so that line numbers are the page's.
local function blocks(text)
  local found, at = {}, 1
  while true do
    local _, from = text:find("\n```lua\n", at, true)
    if not from then return found end
    local to = assert(text:find("\n```", from, true), "block without an end")
    local _, line = text:sub(1, from):gsub("\n", "")
    found[#found + 1] = { line = line + 1, code = ("\n"):rep(line) .. text:sub(from + 1, to) }
    at = to
  end
end

-- Runs an example; what it prints, line by line.
local function run(code, name)
  local printed = {}
  local env = setmetatable({ print = function(...)
    local line = table.pack(...)
    for i = 1, line.n do line[i] = tostring(line[i]) end
    printed[#printed + 1] = table.concat(line, " ")
  end }, { __index = _G })
  assert(load(code, name, "t", env))()
  return printed
end

local function begins(line, expected)
  return line == expected or line:sub(1, #expected + 1) == expected .. " "
end

-- Each line that the example promises must be printed, in order; further values may follow.
local function compare(code, printed)
  local i = 1
  for expected in code:gmatch("%-%-> ([^\n]*)") do
    local from = i
    while printed[i] and not begins(printed[i], expected) do i = i + 1 end
    assert.is_truthy(printed[i], ("%q is not printed, but: %s"):format(expected, table.concat(printed, " | ", from)))
    i = i + 1
  end
end

for _, path in ipairs(pages()) do
  local page = path:match("doc/(.*)%.md$")
  describe(path, function()
    for _, block in ipairs(blocks(read(path))) do
      it(("line %d %s"):format(block.line, RUN[page] and "prints what it says" or "compiles"), function()
        local name = "@" .. path
        if RUN[page] then compare(block.code, run(block.code, name)) else assert(load(block.code, name, "t")) end
      end)
    end
  end)
end

describe("doc/errors.md", function()
  it("lists exactly the codes there are, with their status", function()
    local listed, there = {}, {}
    for code, status in read("doc/errors.md"):gmatch("\n| `([%l%-]+)` | (%d+) |") do
      assert.is_nil(listed[code], code .. " is listed twice")
      listed[code] = tonumber(status)
    end
    for code, e in pairs(partline.errors) do there[code] = e.status end
    assert.same(there, listed)
  end)
end)

describe("doc/options.md", function()
  it("lists limits that are checked, with what the code says is over them", function()
    local n = 0
    for name, status, code in read("doc/options.md"):gmatch("\n| `(max_[%l_]+)` | %d+ | (%d+) `([%l%-]+)`") do
      n = n + 1
      assert.is_false(pcall(options.limits, { [name] = -1 }), name)
      assert.equal(tonumber(status), partline.errors[code].status, code)
    end
    assert.equal(11, n)
  end)
end)

-- Functions of modules that other modules of ours call, and programs need not.
local INTERNAL = { of_body = true, body_reader = true, add_body = true }
local INTERNAL_METHODS = {
  on_wait = true, idle = true, release = true, patience = true, preload = true, at_hand = true, expecting = true,
}

describe("types", function()
  it("can be loaded", function()
    local pipe = assert(io.popen("ls types/*.lua"))
    for path in pipe:lines() do assert.is_function(assert(loadfile(path))) end
    pipe:close()
  end)

  it("and pages have every function of a module", function()
    for _, module in ipairs { "reader", "headers", "message", "multipart", "url", "form", "parser" } do
      local types, page = read("types/" .. module .. ".lua"), read("doc/" .. module .. ".md")
      for name, f in pairs(require("partline." .. module)) do
        if type(f) == "function" and not INTERNAL[name] then
          local declared = ("function %s.%s("):format(module, name)
          assert.is_truthy(types:find(declared, 1, true), "types: no " .. declared)
          assert.is_truthy(page:find(name .. "(", 1, true), "doc: no " .. declared)
        end
      end
    end
  end)

  it("and pages have every method of a Reader", function()
    local types, page = read("types/reader.lua"), read("doc/reader.md")
    for name in pairs(debug.getmetatable(partline.reader.from_string("")).__index) do
      if not INTERNAL_METHODS[name] then
        assert.is_truthy(types:find("function Reader:" .. name .. "(", 1, true), "types: no " .. name)
        assert.is_truthy(page:find("`" .. name .. "(", 1, true), "doc: no " .. name)
      end
    end
  end)

  it("have every code", function()
    local listed, there = {}, {}
    for code in read("types/partline.lua"):gmatch('\n%-%-%-| "([%l%-]+)"') do listed[code] = true end
    for code in pairs(partline.errors) do there[code] = true end
    assert.same(there, listed)
  end)

  it("have every limit", function()
    local types = read("types/partline.lua")
    for name in read("doc/options.md"):gmatch("\n| `(max_[%l_]+)`") do
      assert.is_truthy(types:find("@field " .. name .. "?", 1, true), name)
    end
  end)
end)
