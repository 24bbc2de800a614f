-- Parts: the iterator, its limits, what a part has, and dispositions.

local core = require "partline.core"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local check = require "spec.support.check"
local feed = require "spec.support.feed"
local sources = require "spec.support.sources"
local splits = require "spec.support.splits"

local fails, raises, throws = check.fails, check.raises, check.throws

local FORM = "multipart/form-data; boundary=b"

-- A body of parts, each { name, content, more fields }.
local function body_of(...)
  local out = {}
  for _, part in ipairs { ... } do
    out[#out + 1] = ('--b\r\nContent-Disposition: form-data; name="%s"\r\n%s\r\n%s\r\n'):format(
      part[1], part[3] or "", part[2])
  end
  return table.concat(out) .. "--b--\r\n"
end

local THREE = body_of({ "a", "first" }, { "c", "second\r\n" }, { "d", "" })

local function names(source, limits)
  local out = {}
  for part in multipart.parse(source, FORM, limits) do out[#out + 1] = part.name end
  return table.concat(out, " ")
end

local function one_part(fields, content)
  local part = multipart.parse("--b\r\n" .. fields .. "\r\n" .. (content or "x") .. "\r\n--b--", FORM)()
  return part, part.content:read("a")
end

describe("parse", function()
  it("iterates over the parts of whatever holds bytes", function()
    local path = sources.file(THREE)
    local handle = io.open(path, "rb")
    local made = reader.make(sources.pieces(THREE, 9), { read_bytes = function(f) return f() end })
    local next_piece = sources.pieces(THREE, 3)
    local list = {
      THREE, reader.from_string(THREE), handle, sources.pieces(THREE, 5), made,
      { read = function() return next_piece() end },
    }
    for _, source in ipairs(list) do assert.equal("a c d", names(source)) end
    handle:close()
    os.remove(path)
    assert.equal("a c d", names({ receive = (function()
      local piece = sources.pieces(THREE, 4)
      return function() return piece() end
    end)(), send = print }))
  end)

  it("gives the four values of a for loop", function()
    local step, state, first, closer = multipart.parse(THREE, FORM)
    assert.is_function(step)
    assert.is_nil(state)
    assert.is_nil(first)
    assert.is_truthy(getmetatable(closer).__close)
  end)

  it("gives contents of any size and kind, at every cut", function()
    local contents = {
      "", "x", "\r\n", "\r", "\n", "--bb", "\r\n--", "\r\n--bb\r\n--b-\r\n", "a\r\n\r\n", ("\r\n-"):rep(9),
    }
    local parts = {}
    for i, content in ipairs(contents) do parts[i] = { "n" .. i, content } end
    local body = body_of(table.unpack(parts))
    splits(body, function(pieces, how)
      local got = feed.multipart(feed.reader(pieces, true), FORM)
      assert.equal("ok", got.result, how)
      for i, content in ipairs(contents) do assert.equal(content, got.parts[i].body, how) end
      assert.equal(#contents, #got.parts, how)
    end)
  end)

  it("ends at the close delimiter, without waiting for what may follow", function()
    local calls = 0
    local pieces = { (THREE:gsub("\r\n$", "")) }
    local seen = {}
    for part in multipart.parse(function()
      calls = calls + 1
      return pieces[calls] or error("asked for an epilogue")
    end, FORM) do
      seen[#seen + 1] = part.content:read("a")
    end
    assert.same({ "first", "second\r\n", "" }, seen)
    assert.equal(1, calls)
  end)

  it("of no parts ends at once", function()
    local calls = 0
    local step = multipart.parse(function()
      calls = calls + 1
      return calls == 1 and "--b--" or error("asked for more")
    end, FORM)
    for _ = 1, 3 do assert.is_nil(step()) end
  end)

  it("answers nil after the end, again and again", function()
    local step = multipart.parse(THREE, FORM)
    for _ = 1, 3 do assert.is_table(step()) end
    for _ = 1, 3 do assert.is_nil(step()) end
  end)

  it("raises a failure, and again when called again", function()
    local step = multipart.parse("--b\r\nbroken\r\n\r\nx\r\n--b--", FORM)
    local first = throws("bad-header", step)
    assert.equal(first.message, throws("bad-header", step).message)
    assert.is_truthy(first.message:find("byte 11", 1, true), first.message)
  end)

  it("raises what is wrong with the content type", function()
    for content_type, code in pairs {
      [""] = "bad-content-type", ["text/plain; boundary=b"] = "bad-content-type", ["multipart/mixed"] = "no-boundary",
      ["multipart/; boundary=b"] = "bad-content-type", ["multipart/mixed; boundary=\"b"] = "bad-content-type",
      ["multipart/mixed; boundary=b; boundary=b"] = "duplicate-boundary",
      ["multipart/mixed; boundary=\"b \""] = "invalid-boundary", ["multipart/mixed; boundary=b\1"] = "invalid-boundary",
    } do
      throws(code, multipart.parse, THREE, content_type)
    end
  end)

  it("takes what may stand in a content type", function()
    for _, content_type in ipairs {
      "Multipart/Form-Data;BOUNDARY=b", 'multipart/form-data; charset=x; boundary="b"; more=1',
      "multipart/form-data ; boundary=b ;", 'multipart/form-data; x="; boundary=z"; boundary=b',
    } do
      local count = 0
      for _ in multipart.parse(THREE, content_type) do count = count + 1 end
      assert.equal(3, count, content_type)
    end
  end)

  it("raises wrong use at the caller's line", function()
    raises("content type must be a string", function() multipart.parse(THREE) end)
    raises("content type must be a string", function() multipart.parse(THREE, 5) end)
    raises("cannot read from a number", function() multipart.parse(5, FORM) end)
    raises("cannot read from a table", function() multipart.parse({}, FORM) end)
    raises("cannot read from a nil", function() multipart.parse(nil, FORM) end)
    raises("max_parts must be a non-negative integer", function() multipart.parse("", FORM, { max_parts = -1 }) end)
    raises("max_part_fields must be at most", function()
      multipart.parse("", FORM, { ["max-part-fields"] = 1 << 20 })
    end)
    raises("table expected", function() multipart.parse("", FORM, "x") end)
  end)
end)

describe("a part", function()
  it("has a name, a filename, a type and fields in order", function()
    local part, content = one_part("content-type: image/png\r\n" ..
      'Content-Disposition: form-data; name="n"; filename="f.png"\r\n' ..
      "Z: 1\r\nA: 2\r\nz: 3\r\n", "data")
    assert.equal("n", part.name)
    assert.equal("f.png", part.filename)
    assert.is_nil(part["filename*"])
    assert.equal("form-data", part.type)
    assert.equal("image/png", part.headers["Content-Type"])
    assert.equal("1, 3", part.headers.z)
    assert.equal("data", content)
    local order = {}
    for name in require("partline.headers").each(part.headers) do order[#order + 1] = name end
    assert.equal("content-type Content-Disposition Z A z", table.concat(order, " "))
  end)

  it("without a filename has none; an empty one is the empty string", function()
    assert.is_nil(one_part('Content-Disposition: form-data; name="n"\r\n').filename)
    assert.equal("", one_part('Content-Disposition: form-data; name="n"; filename=""\r\n').filename)
    assert.equal("", one_part('Content-Disposition: form-data; name=""\r\n').name)
  end)

  it("has filename* decoded apart, and without harm when malformed", function()
    local function names_of(params)
      local part = one_part('Content-Disposition: form-data; name="n"; ' .. params .. "\r\n")
      return part.filename, part["filename*"]
    end
    assert.same({ "plain", "n\xc3\xa4h" }, { names_of("filename=plain; filename*=UTF-8''n%C3%A4h") })
    assert.same({ "plain", "n\xc3\xa4h" }, { names_of("filename=plain; filename*=iso-8859-1'de'n%e4h") })
    for _, bad in ipairs { "UTF-8''%zz", "UTF-8''%C3", "UTF-8'%41", "x-none''a", "a", "", "UTF-8''a b" } do
      assert.same({ "plain" }, { names_of("filename=plain; filename*=" .. bad) }, bad)
    end
  end)

  it("tells the length it claims, which cuts and extends nothing", function()
    local fields = 'Content-Disposition: form-data; name="n"\r\nContent-Length: '
    for claimed, length in pairs { ["5"] = 5, ["2"] = 2, ["99999"] = 99999, ["005"] = 5, ["0"] = 0 } do
      local part, content = one_part(fields .. claimed .. "\r\n", "hello")
      assert.equal(length, part.length)
      assert.equal("hello", content)
    end
    for _, bad in ipairs { "-1", "+5", "0x5", "", "5 5", "1e3", ("9"):rep(40) } do
      local part, content = one_part(fields .. bad .. "\r\n", "hello")
      assert.is_nil(part.length, bad)
      assert.equal("hello", content)
    end
  end)

  it("is answered for missing what form-data needs, and for nothing elsewhere", function()
    for fields, code in pairs {
      [""] = "missing-disposition", ["Content-Type: x\r\n"] = "missing-disposition",
      ["Content-Disposition: form-data\r\n"] = "missing-name",
      ["Content-Disposition: form-data; filename=x\r\n"] = "missing-name",
      ["Content-Disposition: attachment; name=x\r\n"] = "bad-disposition",
      ['Content-Disposition: form-data; name="x\r\n'] = "bad-disposition",
      ["Content-Disposition: form-data; name=a; name=b\r\n"] = "bad-disposition",
      ["Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=a\r\n"] = "bad-disposition",
    } do
      throws(code, one_part, fields)
      if code ~= "bad-disposition" or not fields:find("\n.*\n") then
        local part = multipart.parse("--b\r\n" .. fields .. "\r\nx\r\n--b--", "multipart/mixed; boundary=b")()
        assert.equal("x", part.content:read("a"))
      end
    end
  end)

  it("of another subtype tells its disposition too", function()
    local body = "--b\r\nContent-Disposition: attachment; filename=f\r\n\r\nx\r\n--b--"
    local part = multipart.parse(body, "multipart/mixed; boundary=b")()
    assert.equal("attachment", part.type)
    assert.equal("f", part.filename)
    assert.is_nil(part.name)
  end)

  it("that is chunked itself is decoded, as fnl-http sends it", function()
    for _, chunked in ipairs { "chunked", "Chunked" } do
      local fields = "Transfer-Encoding: " .. chunked .. "\r\n"
      local body = body_of({ "a", sources.chunked("content", 3), fields }, { "c", "plain" })
      local seen = {}
      for part in multipart.parse(sources.pieces(body, 4), FORM) do seen[#seen + 1] = part.content:read("a") end
      assert.same({ "content", "plain" }, seen)
    end
  end)

  it("that is chunked may be skipped, or be cut off", function()
    local body = body_of({ "a", sources.chunked("content", 3), "Transfer-Encoding: chunked\r\n" }, { "c", "plain" })
    assert.equal("a c", names(body))
    body = body_of({ "a", "5\r\nabc", "Transfer-Encoding: chunked\r\n" }, { "c", "plain" })
    local step = multipart.parse(body, FORM)
    fails("unexpected-eof", step().content:read("a"))
    assert.equal("plain", step().content:read("a"))
  end)

  it("that is a multipart is content, which parse takes on", function()
    local inner = "--i\r\nContent-Disposition: file; filename=1\r\n\r\none\r\n--i\r\n\r\ntwo\r\n--i--\r\n"
    local body = body_of({ "files", inner, "Content-Type: multipart/mixed; boundary=i\r\n" }, { "c", "after" })
    for size = 1, 20 do
      local seen = {}
      for part in multipart.parse(sources.pieces(body, size), FORM) do
        local content_type = part.headers["content-type"]
        if content_type then
          for nested in multipart.parse(part.content, content_type) do
            seen[#seen + 1] = (nested.filename or "-") .. nested.content:read("a")
          end
        else
          seen[#seen + 1] = part.name .. part.content:read("a")
        end
      end
      assert.same({ "1one", "-two", "cafter" }, seen)
    end
  end)

  it("that is a multipart which ends too early tells so, and the outer one goes on", function()
    local body = body_of({ "files", "--i\r\n\r\none\r\n" }, { "c", "after" })
    local step = multipart.parse(body, FORM)
    local inner = multipart.parse(step().content, "multipart/mixed; boundary=i")
    fails("unexpected-eof", inner().content:read("a"))
    throws("unexpected-eof", inner)
    assert.equal("after", step().content:read("a"))
  end)
end)

describe("one live part", function()
  it("moving on skips what was not read", function()
    for size = 1, 12 do
      assert.equal("a c d", names(sources.pieces(THREE, size)))
      local step = multipart.parse(sources.pieces(THREE, size), FORM)
      assert.equal("f", step().content:read(1))
      assert.equal("se", step().content:peek(2))
      assert.equal("d", step().name)
      assert.is_nil(step())
    end
  end)

  it("a part left behind is stale", function()
    for size = 1, 40, 3 do
      local step = multipart.parse(sources.pieces(THREE, size), FORM)
      local first = step()
      assert.equal("fi", first.content:read(2))
      local second = step()
      local function is_stale(content)
        fails("stale-part", content:read(1))
        fails("stale-part", content:read("a"))
        fails("stale-part", content:read("l"))
        fails("stale-part", content:peek(1))
        fails("stale-part", content:skip())
        fails("stale-part", content:copy(print))
        throws("stale-part", content:lines())
      end
      is_stale(first.content)
      assert.equal("second\r", second.content:read("l"))
      assert.is_nil(first.content:length())
      assert.equal("c", second.name)
    end
  end)

  it("what was peeked at is stale too", function()
    for size = 1, 40, 3 do
      local step = multipart.parse(sources.pieces(THREE, size), FORM)
      local first = step()
      assert.equal("firs", first.content:peek(4))
      assert.equal("f", first.content:read(1))
      step()
      fails("stale-part", first.content:read(1))
      fails("stale-part", reader.limit(first.content, 5):read(1))
    end
  end)

  it("the last part is stale after the end, unless it was read to its end", function()
    local step = multipart.parse(body_of({ "a", "x" }), FORM)
    local part = step()
    assert.is_nil(step())
    fails("stale-part", part.content:read(1))
    step = multipart.parse(body_of({ "a", "x" }), FORM)
    part = step()
    assert.equal("x", part.content:read("a"))
    assert.is_nil(part.content:read(1))
    assert.is_nil(step())
    assert.is_nil(part.content:read(1))
  end)

  it("a stale chunked part is stale", function()
    local step = multipart.parse(body_of({ "a", sources.chunked("content", 3), "Transfer-Encoding: chunked\r\n" },
      { "c", "x" }), FORM)
    local first = step()
    assert.equal("co", first.content:read(2))
    step()
    fails("stale-part", first.content:read("a"))
  end)

  it("a closed part is skipped like any other", function()
    local step = multipart.parse(THREE, FORM)
    local first = step()
    first.content:read(1)
    first.content:close()
    fails("closed", first.content:read(1))
    assert.equal("second\r\n", step().content:read("a"))
  end)
end)

describe("leaving the loop", function()
  it("by break closes the iterator, and the rest is its owner's", function()
    local below = reader.from_string(THREE .. "REST")
    local kept, step
    do
      local state, first, closer
      step, state, first, closer = multipart.parse(below, FORM)
      for part in step, state, first, closer do
        kept = part
        if part.name == "a" then break end
      end
    end
    fails("closed", kept.content:read(1))
    throws("closed", step)
    assert.is_truthy(below:read("a"):find("second\r\n\r\n.*REST$"))
  end)

  it("by an error or a return closes it too", function()
    local step
    local function leave(how)
      local state, first, closer
      step, state, first, closer = multipart.parse(THREE, FORM)
      for part in step, state, first, closer do
        if how == "error" then error(part.name, 0) end
        if how == "return" then return part.name end
      end
    end
    assert.equal("a", leave("return"))
    throws("closed", step)
    assert.same({ false, "a" }, { pcall(leave, "error") })
    throws("closed", step)
  end)

  it("to its end leaves the epilogue", function()
    local below = reader.from_string(THREE .. "EPILOGUE")
    for _ in multipart.parse(below, FORM) do assert.equal("open", (below:status())) end
    assert.equal("\r\nEPILOGUE", below:read("a"))
  end)

  it("is collected with all it holds", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local below = reader.from_string(THREE)
      local step = multipart.parse(below, FORM)
      local part = step()
      weak[below], weak[step], weak[part.content], weak[part.headers] = true, true, true, true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("does not leave a part without its memory", function()
    local content
    do
      local step = multipart.parse(sources.pieces(THREE, 7), FORM)
      content = step().content
    end
    collectgarbage()
    collectgarbage()
    assert.equal("first", content:read("a"))
  end)
end)

describe("a limit", function()
  it("of parts holds at it and fails one past it", function()
    assert.equal("a c d", names(THREE, { max_parts = 3 }))
    throws("too-many-parts", names, THREE, { max_parts = 2 })
    throws("too-many-parts", names, THREE, { ["max-parts"] = 0 })
    assert.equal("", names("--b--", { max_parts = 0 }))
    local many = ("--b\r\nContent-Disposition: form-data; name=n\r\n\r\n\r\n"):rep(1000)
    assert.equal(1999, #names(many .. "--b--"))
    throws("too-many-parts", names, many .. "--b\r\nContent-Disposition: form-data; name=n\r\n\r\n\r\n--b--")
  end)

  it("of parts is told before the head of the one too many has come", function()
    local step = multipart.parse(function() return coroutine.yield() end, FORM, { max_parts = 1 })
    local task = coroutine.wrap(function()
      step()
      step()
    end)
    task()
    task("--b\r\nContent-Disposition: form-data; name=n\r\n\r\n\r\n")
    throws("too-many-parts", task, "--b\r\n")
  end)

  it("of a part's head holds at it and fails one past it", function()
    local around = #"Content-Disposition: form-data; name=n\r\nX: \r\n\r\n"
    local function with_head(n, limits)
      local value = ("v"):rep(n - around)
      return names("--b\r\nContent-Disposition: form-data; name=n\r\nX: " .. value .. "\r\n\r\nx\r\n--b--", limits)
    end
    assert.equal("n", with_head(16384))
    throws("header-too-large", with_head, 16385)
    assert.equal("n", with_head(100, { max_part_head = 100 }))
    throws("header-too-large", with_head, 101, { ["max-part-head"] = 100 })
  end)

  it("of a part's fields holds at it and fails one past it", function()
    local function with_fields(n, limits)
      local more = ("X: y\r\n"):rep(n - 1)
      return names("--b\r\nContent-Disposition: form-data; name=n\r\n" .. more .. "\r\nx\r\n--b--", limits)
    end
    assert.equal("n", with_fields(16))
    throws("header-too-large", with_fields, 17)
    assert.equal("n", with_fields(3, { max_part_fields = 3 }))
    throws("header-too-large", with_fields, 4, { ["max-part-fields"] = 3 })
  end)

  it("of a boundary holds at it and fails one past it", function()
    local function with_boundary(n, limits)
      local b = ("y"):rep(n)
      local count = 0
      local body = "--" .. b .. "\r\n\r\nx\r\n--" .. b .. "--"
      for _ in multipart.parse(body, "multipart/mixed; boundary=" .. b, limits) do
        count = count + 1
      end
      return count
    end
    assert.equal(1, with_boundary(70))
    throws("boundary-too-long", with_boundary, 71)
    assert.equal(1, with_boundary(300, { max_boundary = 300 }))
    throws("boundary-too-long", with_boundary, 301, { ["max-boundary"] = 300 })
    throws("boundary-too-long", with_boundary, 2, { max_boundary = 1 })
  end)

  it("of an endless part is none: it streams", function()
    local left = 512
    local block = ("x"):rep(65536)
    local first = true
    local step = multipart.parse(function()
      if first then
        first = false
        return '--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n'
      end
      left = left - 1
      return left >= 0 and block or nil
    end, FORM)
    local part = step()
    check.makes_no_garbage(32, function() fails("unexpected-eof", part.content:skip()) end)
  end)
end)

describe("disposition", function()
  it("takes a value apart", function()
    assert.same({ type = "form-data", name = "a", filename = "f" },
      multipart.disposition('form-data; name="a"; filename=f', true))
    assert.same({ type = "attachment" }, multipart.disposition("attachment"))
  end)

  it("prefers filename* outside of forms", function()
    local value = "attachment; filename=plain; filename*=UTF-8''%e2%82%ac"
    assert.equal("\xe2\x82\xac", multipart.disposition(value).filename)
    assert.equal("plain", multipart.disposition(value, true).filename)
    assert.equal("plain", multipart.disposition("attachment; filename=plain; filename*=bad").filename)
  end)

  it("decodes what browsers encode in forms, and nothing else", function()
    assert.equal('a"b\r\nc%20%2', multipart.disposition('form-data; name="a%22b%0D%0Ac%20%2"', true).name)
    assert.equal("a%22b", multipart.disposition('inline; name="a%22b"').name)
    assert.equal('a"b\\c\\\\d', multipart.disposition('form-data; name="a\\"b\\c\\\\d"', true).name)
  end)

  it("answers what it refuses", function()
    for value, code in pairs {
      [""] = "bad-disposition", ["; name=a"] = "bad-disposition", ['form-data; name="a'] = "bad-disposition",
      ["form data"] = "bad-disposition", ["form-data; name=a; NAME=b"] = "bad-disposition",
      ['form-data; name="a"b'] = "bad-disposition", ["form-data; name=a\0"] = "bad-header",
      ["form-data;\r\n name=a"] = "bad-header",
    } do
      fails(code, multipart.disposition(value, true))
    end
  end)

  it("raises for what is no string", function()
    assert.has_error(function() multipart.disposition() end)
    assert.has_error(function() multipart.disposition({}) end)
  end)
end)

describe("basename", function()
  it("leaves nothing of a client's folders", function()
    for given, want in pairs {
      ["a.txt"] = "a.txt", ["/etc/passwd"] = "passwd", ["..\\..\\x"] = "x", ["C:\\new\\test.txt"] = "test.txt",
      ["a/"] = "", [""] = "", ["../../etc/pass\\..\\wd"] = "wd", [".."] = "..", ["a:b"] = "a:b",
    } do
      assert.equal(want, multipart.basename(given))
    end
  end)
end)

describe("core.multipart.boundary", function()
  it("tells the boundary, and whether it is a form", function()
    assert.same({ "b", true }, { core.multipart.boundary("multipart/form-data; boundary=b") })
    assert.same({ "(a+b).c-d?", false }, { core.multipart.boundary('multipart/mixed; boundary="(a+b).c-d?"') })
  end)
end)
