-- Transcripts: spec/golden/KIND.txt says for some bytes what a decoder makes of them. To add one, copy an entry of the
-- file and change it:
--
--     == a title
--     given open                       optional, see below
--     >>> 4\r\nwiki\r\n0\r\n\r\n       the bytes; several such lines are one input
--     data "wiki"                      what must come of them, one a line, in this order
--     end
--
-- Escapes in bytes and in quotes: \r \n \t \0 \\ \" \xHH. A line that begins with # is a comment. What may be given:
--
--     given open                       the input does not end: `more` tells that a read still waits
--     given method HEAD                responses: the method of the request
--     given content-type VALUE         multipart; "multipart/form-data; boundary=b" otherwise
--
-- Every input is fed whole, byte by byte and at every cut; the transcript must be the same. When one fails, the message
-- shows what came in the same form.

local feed = require "spec.support.feed"
local splits = require "spec.support.splits"

-- ---- escapes ----

local NAMED = { r = "\r", n = "\n", t = "\t", ["0"] = "\0", ["\\"] = "\\", ['"'] = '"' }
local SHOWN = { ["\r"] = "\\r", ["\n"] = "\\n", ["\t"] = "\\t", ["\0"] = "\\0", ["\\"] = "\\\\", ['"'] = '\\"' }

local function unescape(text, where)
  return (text:gsub("\\(.)(%x?%x?)", function(c, rest)
    if c == "x" and #rest == 2 then return string.char(tonumber(rest, 16)) end
    return (NAMED[c] or error(("%s: unknown escape \\%s"):format(where, c), 0)) .. rest
  end))
end

local function quote(bytes)
  local shown = bytes:gsub('[%c\\"\x7f-\xff]', function(c) return SHOWN[c] or ("\\x%02X"):format(c:byte()) end)
  return '"' .. shown .. '"'
end

-- ---- outcomes as lines ----

local function fields(out, list)
  for _, field in ipairs(list or {}) do out[#out + 1] = ("field %s: %s"):format(field[1], quote(field[2])) end
end

local function trailers(out, list)
  for _, field in ipairs(list or {}) do out[#out + 1] = ("trailer %s: %s"):format(field[1], quote(field[2])) end
end

local function data(out, bytes)
  if bytes and bytes ~= "" then out[#out + 1] = "data " .. quote(bytes) end
end

local function conclusion(out, got, r, eof)
  if got.result == "need-more" then
    out[#out + 1] = "more"
  elseif got.result == "error" then
    local at = got.message:match("%(byte (%d+)%)$")
    out[#out + 1] = ("error %s%s"):format(got.error, at and " @" .. at or "")
  elseif got.result == "end" then
    out[#out + 1] = "nothing"
  else
    out[#out + 1] = "end"
    local left = eof and r:read("a") or ""
    if left ~= "" then out[#out + 1] = "left " .. quote(left) end
  end
end

local kinds = {}

function kinds.chunked(out, given, r)
  local got = feed.chunked(r)
  data(out, got.body)
  trailers(out, got.trailers)
  conclusion(out, got, r, given.eof)
end

local function message(out, given, r, got)
  if got.headers then
    fields(out, got.headers)
    out[#out + 1] = "body " .. got.framing
    if not got.keep_alive then out[#out + 1] = "close" end
    data(out, got.body)
    trailers(out, got.trailers)
  end
  conclusion(out, got, r, given.eof)
end

function kinds.request(out, given, r)
  local got = feed.request(r)
  if got.method then out[1] = ("request %s %s %s"):format(got.method, got.target, got.version) end
  message(out, given, r, got)
end

function kinds.response(out, given, r)
  local got = feed.response(r, given.method)
  for _, status in ipairs(got.interim) do out[#out + 1] = "interim " .. status end
  if got.code then out[#out + 1] = ("response %d %s %s"):format(got.code, quote(got.reason), got.version) end
  message(out, given, r, got)
end

function kinds.multipart(out, given, r)
  local got = feed.multipart(r, given["content-type"] or "multipart/form-data; boundary=b")
  for _, part in ipairs(got.parts or {}) do
    local line = { "part" }
    for _, key in ipairs { "name", "filename", "filename_ext" } do
      if part[key] then line[#line + 1] = (key == "filename_ext" and "filename*" or key) .. "=" .. quote(part[key]) end
    end
    out[#out + 1] = table.concat(line, " ")
    for _, field in ipairs(part.headers) do
      if field[1]:lower() ~= "content-disposition" then fields(out, { field }) end
    end
    data(out, part.body)
  end
  conclusion(out, got, r, given.eof)
end

-- ---- reading transcripts ----

local function take_line(entry, line, where)
  local name, value = line:match("^given (%S+) ?(.*)$")
  if name == "open" then
    entry.given.eof = false
  elseif name then
    entry.given[name] = value
  elseif line:sub(1, 4) == ">>> " then
    entry.bytes = (entry.bytes or "") .. unescape(line:sub(5), where)
  elseif line ~= "" then
    table.insert(entry.want, line)
  end
end

-- → list of { title, where, given, bytes, want }
local function read(path)
  local list, number = {}, 0
  for line in io.lines(path) do
    number = number + 1
    local where = ("%s:%d"):format(path, number)
    local title = line:match("^== (.*)$")
    if title then
      table.insert(list, { title = title, where = where, given = { eof = true }, want = {} })
    elseif line:sub(1, 1) ~= "#" and (line ~= "" or #list > 0) then
      assert(#list > 0, where .. ": before the first ==")
      take_line(list[#list], line, where)
    end
  end
  return list
end

local function run(kind, entry)
  assert(entry.bytes and #entry.want > 0, entry.where .. ": needs a line with >>> and what comes of it")
  local want = table.concat(entry.want, "\n")
  splits(entry.bytes, function(pieces, how)
    local out = {}
    kinds[kind](out, entry.given, feed.reader(pieces, entry.given.eof))
    local got = table.concat(out, "\n")
    if got ~= want then
      error(("%s: %s, %s:\n%s\n-- expected:\n%s"):format(entry.where, entry.title, how, got, want), 0)
    end
  end)
end

for _, kind in ipairs { "chunked", "request", "response", "multipart" } do
  local path = ("spec/golden/%s.txt"):format(kind)
  describe(path, function()
    local list = read(path)
    for _, entry in ipairs(list) do
      it(("%s (line %s)"):format(entry.title, entry.where:match("%d+$")), function() run(kind, entry) end)
    end

    it("has entries", function() assert.is_true(#list >= 10) end)
  end)
end

describe("the runner", function()
  local function entry(bytes, want)
    return { title = "t", where = "f:1", given = { eof = true }, bytes = bytes, want = want }
  end

  it("fails where the transcript is another one", function()
    local ok, err = pcall(run, "chunked", entry("1\r\nx\r\n0\r\n\r\n", { 'data "y"', "end" }))
    assert.is_false(ok)
    assert.is_truthy(err:find('f:1: t, whole:\ndata "x"\nend\n-- expected:\ndata "y"\nend', 1, true), err)
    assert.is_false((pcall(run, "chunked", entry("0\r\n\r\n", {}))))
    assert.is_false((pcall(run, "chunked", entry(nil, { "end" }))))
  end)

  it("knows the escapes", function()
    assert.equal('a\r\n\t\0\\"\xffAz\\n', unescape([[a\r\n\t\0\\\"\xFF\x41z\\n]], "here"))
    assert.equal([["\r\n\t\0\\\"\xFF\x01A"]], quote('\r\n\t\0\\"\xff\1A'))
    for _, text in ipairs { [[\q]], [[a\x4]], [[\xzz]] } do
      local ok, err = pcall(unescape, text, "f:1")
      assert.is_false(ok)
      assert.is_truthy(tostring(err):find("f:1: unknown escape", 1, true))
    end
  end)
end)
