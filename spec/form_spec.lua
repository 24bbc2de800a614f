-- partline.form: urlencoded and multipart forms as a whole, with files on disk and limits.

local build = require "partline.build"
local form = require "partline.form"
local files = require "spec.support.files"
local json = require "spec.support.json"
local message = require "partline.message"
local reader = require "partline.reader"
local splits = require "spec.support.splits"

local CRLF = "\r\n"

local function request_of(content_type, body, pieces)
  local head = "POST / HTTP/1.1" .. CRLF .. "Host: h" .. CRLF .. "Content-Type: " .. content_type .. CRLF
    .. "Content-Length: " .. #body .. CRLF .. CRLF
  local list, i = pieces or { body }, -1
  return assert(message.read_request(reader.from_function(function()
    i = i + 1
    if i == 0 then return head end
    return list[i]
  end)))
end

local URLENCODED = "application/x-www-form-urlencoded"

local function multipart_request(parts, opts)
  local built = assert(build.multipart(parts, opts))
  return request_of(built.content_type, built.reader:read("a"))
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- A directory of the test's own.
local function new_directory()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  return path
end

local function names_in(dir)
  local pipe = assert(io.popen("ls -A " .. dir))
  local names = pipe:read("a")
  pipe:close()
  return names
end

describe("cases.json, urlencoded", function()
  for _, case in ipairs(json.load("spec/data/cases.json")) do
    if case.kind == "urlencoded" then
      it(case.id .. ": " .. case.title, function()
        assert.same(case.expected.pairs, form.decode(case.input))
      end)
    end
  end
end)

describe("form.decode", function()
  it("keeps order, repeats, empty names and values", function()
    assert.same({ { "b", "1" }, { "a", "" }, { "", "x" }, { "b", "2" } }, form.decode "b=1&a&=x&&b=2&")
  end)

  it("takes ';' as data and leaves a bad percent alone", function()
    assert.same({ { "a", "1;b=2" }, { "c", "%zz%" } }, form.decode "a=1;b=2&c=%zz%")
  end)

  it("has a limit", function()
    assert.equal(1000, #form.decode(("a&"):rep(1000)))
    local pairs, _, code = form.decode(("a&"):rep(1001))
    assert.is_nil(pairs)
    assert.equal("too-many-parameters", code)
  end)
end)

describe("form.encode", function()
  it("is what decode undoes", function()
    local list = { { "a b", "1+1=2&" }, { "é", "\0\255" }, { "", "" }, { "a b", "again" } }
    assert.equal("a+b=1%2B1%3D2%26&%C3%A9=%00%FF&=&a+b=again", form.encode(list))
    assert.same(list, form.decode(form.encode(list)))
  end)

  it("takes maps", function()
    assert.equal("a=1&b=2&b=3", form.encode { b = { 2, 3 }, a = "1" })
  end)
end)

describe("form.read", function()
  it("reads urlencoded bodies at every cut", function()
    local body = "a=1&b=x+y&a=%32"
    splits(body, function(pieces, how)
      local f = assert(form.read(request_of(URLENCODED .. "; charset=UTF-8", body, pieces)))
      assert.same({ { name = "a", value = "1" }, { name = "b", value = "x y" }, { name = "a", value = "2" } },
        f.fields, how)
    end)
  end)

  it("reads multipart bodies, files to disk", function()
    local dir = new_directory()
    local big = ("0123456789abcdef"):rep(20000)
    local f = assert(form.read(multipart_request {
      { name = "a", content = "1" },
      { name = "file", filename = "../x.bin", content = big, mime_type = "image/x" },
      { name = "a", content = "" },
      { name = "none", filename = "", content = "" },
      { name = "empty", filename = "empty.txt", content = "" },
    }, { dir = dir }))
    assert.same({ { name = "a", value = "1" }, { name = "a", value = "" } }, f.fields)
    assert.equal("1", f:get "a")
    assert.same({ "1", "" }, f:get_all "a")
    assert.is_nil(f:get "file")
    assert.equal(2, #f.files)
    local file = f:file "file"
    assert.equal("../x.bin", file.filename)
    assert.equal("image/x", file.mime_type)
    assert.equal(#big, file.size)
    assert.equal(big, files.read(file.path))
    assert.equal(0, f:file("empty").size)
    assert.equal(dir, file.path:match("^(.*)/[^/]*$"))
    f:remove()
    assert.equal("", names_in(dir))
    os.remove(dir)
  end)

  it("spools to the system's temporary files by default", function()
    local f = assert(form.read(multipart_request { { name = "f", filename = "x", content = "abc" } }))
    assert.equal("abc", files.read(f.files[1].path))
    f:remove()
    assert.is_false(exists(f.files[1].path))
  end)

  it("is empty without a body", function()
    local request = message.read_request(reader.from_string("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
    assert.same({}, form.read(request).fields)
  end)

  local two_files = {
    { name = "f", filename = "a", content = ("x"):rep(1000) }, { name = "g", filename = "b",
      content = ("y"):rep(1000) },
  }

  local function refused(want, request, opts)
    local dir = new_directory()
    opts.dir = dir
    local f, text, code = form.read(request, opts)
    assert.is_nil(f)
    assert.is_string(text)
    assert.equal(want, code)
    assert.equal("", names_in(dir))
    os.remove(dir)
  end

  it("keeps every limit, and leaves no file behind", function()
    refused("too-many-parameters", request_of(URLENCODED, "a&b&c"), { max_parameters = 2 })
    refused("body-too-large", request_of(URLENCODED, "a=12345"), { max_field_size = 4 })
    refused("body-too-large", request_of(URLENCODED, "a=12345"), { max_fields_size = 4 })
    refused("too-many-parameters", multipart_request { { name = "a", content = "" }, { name = "b", content = "" } },
      { max_parameters = 1 })
    refused("body-too-large", multipart_request { { name = "a", content = "12345" } }, { max_field_size = 4 })
    refused("body-too-large", multipart_request { { name = "a", content = "123" }, { name = "b", content = "123" } },
      { max_fields_size = 7 })
    refused("too-many-parts", multipart_request(two_files), { max_files = 1 })
    refused("body-too-large", multipart_request(two_files), { max_file_size = 999 })
    refused("body-too-large", multipart_request(two_files), { max_files_size = 1999 })
    refused("too-many-parts", multipart_request(two_files), { max_parts = 1 })
    assert.is_truthy(form.read(request_of(URLENCODED, "a=1234"), { max_field_size = 4, max_fields_size = 6,
      max_parameters = 1 }))
    local enough = { max_files = 2, max_file_size = 1000, max_files_size = 2000 }
    local f = assert(form.read(multipart_request(two_files), enough))
    f:remove()
  end)

  it("tells what is wrong with the body", function()
    refused("bad-content-type", request_of("text/plain", "a"), {})
    refused("no-boundary", request_of("multipart/form-data", "a"), {})
    refused("unexpected-eof", request_of("multipart/form-data; boundary=B",
      '--B\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\nabc'), {})
    refused("missing-name", request_of("multipart/form-data; boundary=B",
      '--B\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--B--\r\n'), {})
  end)

  it("tells when a file cannot be written", function()
    local f, _, code = form.read(multipart_request(two_files), { dir = "/nonexistent" })
    assert.is_nil(f)
    assert.equal("write-failed", code)
  end)
end)
