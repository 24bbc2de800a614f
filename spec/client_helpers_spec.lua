-- The client's helpers alone: which proxy, which certificate, which content coding, which JSON library.

local reader = require "partline.reader"
local splits = require "spec.support.splits"
local scripted = require "spec.support.scripted"

local HEAD, always, with = scripted.HEAD, scripted.always, scripted.with

-- ---- which proxy, which name ----

describe("partline.client.proxy", function()
  local proxy = require "partline.client.proxy"

  it("knows who is excluded", function()
    for _, case in ipairs {
      { "*", "any.host", 80, true }, { "", "h", 80, false }, { "example.com", "example.com", 80, true },
      { "example.com", "www.example.com", 80, true }, { ".example.com", "www.example.com", 80, true },
      { ".example.com", "example.com", 80, true }, { "example.com", "badexample.com", 80, false },
      { "*.example.com", "a.example.com", 80, true }, { "a, EXAMPLE.com ,b", "example.COM", 80, true },
      { "example.com:81", "example.com", 80, false }, { "example.com:80", "example.com", 80, true },
      { "127.0.0.1", "127.0.0.1", 1, true }, { "10.0.0.0/8", "10.9.8.7", 80, true }, { "10.0.0.0/8", "11.0.0.1", 80,
        false },
      { "::1", "::1", 80, true }, { "[::1]", "[::1]", 80, true }, { "[::1]:80", "::1", 80, true }, { "[::1]:81", "::1",
        80, false },
    } do
      assert.equal(case[4], proxy.excluded(case[1], case[2], case[3]), case[1] .. " " .. case[2])
    end
  end)

  it("takes options", function()
    assert.same({ host = "p", port = 3128, userinfo = "u:w" }, proxy.choose("http://u:w@p:3128", "http", "h", 80))
    assert.same({ host = "p", port = 80 }, proxy.choose("p", "http", "h", 80))
    assert.is_false(proxy.choose(false, "http", "h", 80))
    assert.equal("bad-proxy", select(3, proxy.choose("socks5://p", "http", "h", 80)))
    assert.equal("bad-url", select(3, proxy.choose("http://p q", "http", "h", 80)))
  end)
end)

describe("partline.client.tls", function()
  local tls = require "partline.client.tls"

  local function names(list, host, addresses)
    local extensions = { ["2.5.29.17"] = { dNSName = list, iPAddress = addresses } }
    return tls.names({ extensions = function() return extensions end }, host)
  end

  it("compares names as RFC 6125 has it", function()
    for _, case in ipairs {
      { "example.com", "example.com", true }, { "EXAMPLE.com", "example.COM", true }, { "example.com", "example.org",
        false },
      { "*.example.com", "a.example.com", true }, { "*.example.com", "a.b.example.com", false },
      { "*.example.com", "example.com", false }, { "*.com", "example.com", false }, { "*", "example", false },
      { "a*.example.com", "ab.example.com", false }, { "*.*.com", "a.b.com", false }, { "example.com.", "example.com",
        true },
      { "example.com\0.evil", "example.com", false }, { "127.0.0.1", "127.0.0.1", false },
    } do
      assert.equal(case[3], names({ case[1] }, case[2]), case[1] .. " " .. case[2])
    end
    assert.is_true(names({ "x", "y" }, "y"))
    assert.is_true(names(nil, "127.0.0.1", { "127.0.0.1" }))
    assert.is_false(names(nil, "127.0.0.1", { "127.0.0.2" }))
    assert.is_true(names(nil, "::1", { "::1" }))
    assert.is_false(tls.names({ extensions = function() return {} end }, "h"))
  end)

  it("verifies unless told otherwise", function()
    local params = tls.params(nil, "h")
    assert.same({ "peer", "fail_if_no_peer_cert" }, params.verify)
    assert.equal("client", params.mode)
    assert.equal("h", params.server_name)
    assert.is_nil(tls.params(nil, "127.0.0.1").server_name)
    assert.is_nil(tls.params(nil, "::1").server_name)
    assert.equal("none", tls.params({ verify = false }, "h").verify)
    assert.equal("/x.pem", tls.params({ cafile = "/x.pem" }, "h").cafile)
  end)
end)

describe("content codings", function()
  local coding = require "partline.client.coding"
  local found, zlib = pcall(require, "zlib")

  it("are not asked for without lua-zlib", function()
    coding.forget()
    local before = package.loaded.zlib
    package.loaded.zlib, package.preload.zlib = nil, function() error("not here") end
    assert.is_false(coding.accepted())
    local body = reader.from_string("x")
    assert.equal(body, coding.decoded(body, "gzip"))
    package.loaded.zlib, package.preload.zlib = before, nil
    coding.forget()
  end)

  if not found then return pending("lua-zlib is not installed") end

  local text = ("hello world "):rep(1000)

  local function deflated(bits)
    return (zlib.deflate(6, bits)(text, "finish"))
  end

  it("are undone at every size of piece", function()
    for name, packed in pairs { gzip = deflated(31), ["x-gzip"] = deflated(31), deflate = deflated(15),
      Deflate = deflated(-15) } do
      splits(packed, function(pieces, how)
        local i = 0
        local r, decoded = coding.decoded(reader.from_function(function() i = i + 1 return pieces[i] end), name)
        assert.is_true(decoded)
        assert.equal(text, r:read("a"), name .. " " .. how)
      end)
    end
    local two = deflated(31) .. deflated(31)
    assert.equal(text .. text, coding.decoded(reader.from_string(two), "gzip"):read("a"))
  end)

  it("fail when they are cut off or broken", function()
    local packed = deflated(31)
    for _, case in ipairs {
      { packed:sub(1, -2), "unexpected-eof" }, { packed:sub(1, 5), "unexpected-eof" }, { "nonsense",
        "bad-content-coding" },
      { packed .. "junk", "bad-content-coding" }, { packed:sub(1, -5) .. "\0\0\0\0", "bad-content-coding" },
    } do
      local bytes, why, code = coding.decoded(reader.from_string(case[1]), "gzip"):read("a")
      assert.is_nil(bytes)
      assert.is_string(why)
      assert.equal(case[2], code)
    end
  end)

  it("of a bomb stay bounded", function()
    local zeros, pieces, deflate = ("\0"):rep(1024 * 1024), {}, zlib.deflate(9, 31)
    for i = 1, 64 do pieces[i] = deflate(zeros) end
    pieces[65] = deflate("", "finish")
    local bomb = table.concat(pieces)
    collectgarbage()
    local before, most, pieces_seen = collectgarbage("count"), 0, 0
    local r = coding.decoded(reader.from_string(bomb), "gzip")
    local n = r:copy(function() -- what is live, whenever the collector would come
      pieces_seen = pieces_seen + 1
      if pieces_seen % 64 ~= 0 then return end
      collectgarbage()
      most = math.max(most, collectgarbage("count"))
    end)
    assert.equal(64 * 1024 * 1024, n)
    assert.is_true(most - before < 12 * 1024, most - before .. " KiB")
    local whole, _, code = (function()
      local again = coding.decoded(reader.from_string(bomb), "gzip")
      again:limits { max_all = 1024 * 1024 }
      return again:read("a")
    end)()
    assert.is_nil(whole)
    assert.equal("body-too-large", code)
  end)

  it("are asked for and undone by the client, in memory and streamed", function()
    local packed = deflated(31)
    local seen = {}
    with(always(HEAD .. "Content-Encoding: gzip\r\nContent-Length: " .. #packed .. "\r\n\r\n" .. packed, seen),
      function(s)
      assert.equal(text, s.client.get(s.url).body)
      local response = assert(s.client.get(s.url, { as = "stream" }))
      assert.is_nil(response.length)
      assert.equal(text, response.body:read("a"))
      assert.equal(packed, s.client.get(s.url, { decompress = false }).body)
      assert.equal(packed, s.client.get(s.url, { headers = { ["accept-encoding"] = "gzip" } }).body)
      assert.equal(1, s.count)
    end)
    assert.equal("gzip, deflate", seen[1].head.headers["Accept-Encoding"])
    assert.is_nil(seen[3].head.headers["Accept-Encoding"])
  end)
end)

describe("JSON", function()
  local coding = require "partline.client.coding"
  local libraries = { "cjson", "dkjson" }

  -- With only one of them to be found.
  local function with_library(wanted, f)
    local loaded, preload = package.loaded, package.preload
    local before = {}
    for _, name in ipairs(libraries) do
      before[name] = loaded[name]
      if name ~= wanted then loaded[name], preload[name] = nil, function() error("not here") end end
    end
    coding.forget()
    local ok, err = pcall(f)
    for _, name in ipairs(libraries) do loaded[name], preload[name] = before[name], nil end
    coding.forget()
    if not ok then error(err, 0) end
  end

  for _, library in ipairs(libraries) do
    it("means the same when " .. library .. " reads it", function()
      if not pcall(require, library) then return pending(library .. " is not installed") end
      with_library(library, function()
        local value = coding.from_json [[
          { "none": null, "list": [1, null, { "none": null }, false], "whole": 10, "half": 0.5, "power": 1e1,
            "large": 9007199254740991, "larger": 1e60, "text": "\u00e9 \u2603\n", "null": "null" } ]]
        assert.same({ [1] = 1, [3] = {}, [4] = false }, value.list)
        value.list = nil
        assert.same({ whole = 10, half = 0.5, power = 10, large = 9007199254740991, larger = 1e60,
          text = "é ☃\n", null = "null" }, value)
        for _, name in ipairs { "whole", "power", "large" } do assert.equal("integer", math.type(value[name]), name) end
        assert.same({}, { coding.from_json "null" }) -- no value, and no error
        assert.equal(1, coding.from_json "1\nnull\n")
        local none, why, code = coding.from_json '{ "a": '
        assert.is_nil(none)
        assert.is_nil(why:find("coding.lua", 1, true), why)
        assert.equal("bad-json", code)
        assert.same({ a = { "b" } }, coding.from_json(coding.to_json { a = { "b" } }))
      end)
    end)
  end

  it("needs one of them", function()
    with_library("neither", function()
      assert.equal("json-unavailable", select(3, coding.from_json "1"))
      assert.equal("json-unavailable", select(3, coding.to_json {}))
    end)
  end)
end)
