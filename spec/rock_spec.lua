-- What is released must agree with what is here: file lists and versions.

local read = require("spec.support.files").read

local function list(pattern)
  local pipe = assert(io.popen("ls " .. pattern .. " 2>/dev/null"))
  local paths = {}
  for path in pipe:lines() do
    paths[#paths + 1] = path
  end
  pipe:close()
  table.sort(paths)
  return paths
end

local function load_rockspec(path)
  local spec = {}
  assert(loadfile(path, "t", spec))()
  return spec
end

-- "## 0.1.0 (unreleased)" and "## 0.1.0 (2026-11-30)", newest first.
local function changelog()
  local entries = {}
  for version, state in assert(read("CHANGELOG.md")):gmatch("\n## (%d+%.%d+%.%d+) %(([^)\n]+)%)") do
    entries[#entries + 1] = { version = version, released = state ~= "unreleased" }
  end
  return entries
end

describe("partline-scm-1.rockspec", function()
  local spec = load_rockspec("partline-scm-1.rockspec")

  it("is what make rockspec writes", function()
    assert.equal(assert(loadfile("scripts/rockspec.lua"))("text"), read("partline-scm-1.rockspec"))
  end)

  it("lists every C file", function()
    local sources = spec.build.modules["partline.core"].sources
    table.sort(sources)
    assert.same(list("csrc/core/*.c csrc/bind/*.c"), sources)
  end)

  it("lists every Lua file under the name it is required by", function()
    local paths = {}
    for name, path in pairs(spec.build.modules) do
      if type(path) == "string" then
        paths[#paths + 1] = path
        local plain = "lua/" .. name:gsub("%.", "/")
        assert.is_true(path == plain .. ".lua" or path == plain .. "/init.lua", name)
      end
    end
    table.sort(paths)
    assert.same(list("$(find lua -name '*.lua')"), paths)
  end)

  it("is named after its version", function()
    assert.equal("scm-1", spec.version)
    assert.equal("partline", spec.package)
  end)
end)

describe("the version", function()
  it("is the newest one of CHANGELOG.md", function()
    assert.is_not_nil(changelog()[1], "CHANGELOG.md begins with ## X.Y.Z (unreleased) or a date")
    if read("lua/partline/init.lua") then
      assert.equal(changelog()[1].version, require("partline")._VERSION:match("%d+%.%d+%.%d+"))
    end
  end)

  it("of each released rockspec is its file's and CHANGELOG.md's", function()
    local released = {}
    for _, entry in ipairs(changelog()) do
      released[entry.version] = entry.released
    end
    for _, path in ipairs(list("rockspec/*.rockspec")) do
      local spec = load_rockspec(path)
      assert.equal(path, ("rockspec/partline-%s.rockspec"):format(spec.version))
      assert.is_true(released[spec.version:match("^(.*)%-%d+$")], path .. " is not dated in CHANGELOG.md")
    end
  end)

  it("that CHANGELOG.md calls released has a rockspec", function()
    for _, entry in ipairs(changelog()) do
      if entry.released then
        assert.is_true(#list(("rockspec/partline-%s-*.rockspec"):format(entry.version)) > 0, entry.version)
      end
    end
  end)
end)
