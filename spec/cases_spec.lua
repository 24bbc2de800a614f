-- The cases of spec/data/cases.json, each a bug that some implementation had (`source` says which). Every one is fed as
-- its `feed` says, once from the whole text and once for every cut.

local core = require "partline.core"
local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"
local url = require "partline.url"
local feed = require "spec.support.feed"
local splits = require "spec.support.splits"

local cases = require("spec.support.json").load("spec/data/cases.json")

-- Cases we answer in another way on purpose: id = reason.
local WRONG = {}

local function bytes_of(case)
  return case.input or splits.generate(case.generate)
end

-- ---- what each kind of case gives ----

local run = {}

run["multipart-body"] = function(case, r) return feed.multipart(r, case.content_type) end
run["content-type"] = function(case) return feed.multipart(reader.from_string(""), bytes_of(case)) end
run["chunked-body"] = function(_, r) return feed.chunked(r) end
run["request"] = function(_, r) return feed.request(r) end
run["response"] = function(case, r) return feed.response(r, case.context and case.context.request_method) end

local function disposition(case, form)
  local found, text, code = multipart.disposition(case.input, form)
  if not found then
    return { result = "error", error = code, message = text, status = require("partline").errors[code].status }
  end
  found.result = "ok"
  found.basename = found.filename and multipart.basename(found.filename)
  return found
end

run["disposition"] = function(case) return disposition(case, true) end
run["disposition-response"] = function(case) return disposition(case, false) end

run["urlencoded"] = function(case)
  local pairs_of = assert(url.query_pairs(case.input))
  return { result = "ok", pairs = pairs_of }
end

-- ---- what a builder writes ----

local function sink()
  local out = {}
  return function(bytes)
    out[#out + 1] = bytes
    return true
  end, out
end

local function fields_of(list)
  local out = {}
  for _, field in ipairs(list) do out[field[1]] = field[2] end
  return out
end

-- → the bytes, or nil, message, code.
local function written(write, ...)
  local to, out = sink()
  local ok, text, code = write(to, ...)
  if ok == nil then
    assert.same({}, out, "something was sent before the refusal")
    return nil, text, code
  end
  return table.concat(out)
end

local function response_of(head)
  return { status = head.status, reason_phrase = head.reason, headers = fields_of(head.headers), body = head.body }
end

local function parts_of(build)
  local parts = {}
  for i, part in ipairs(build.parts) do
    parts[i] = { name = part.name, filename = part.filename, content = part.body }
  end
  return parts
end

local builders = {}

builders["multipart"] = function(build)
  if not build.times then
    local body = assert(multipart.build(parts_of(build), { boundary = build.boundary }))
    assert.equal("multipart/form-data; boundary=" .. build.boundary, body.content_type)
    local bytes = body.reader:read("a")
    assert.equal(#bytes, body.length)
    return bytes
  end
  local seen = {}
  for _ = 1, build.times do
    local boundary = multipart.build(parts_of(build)).content_type:match("; boundary=([%w'_.%-]+)$")
    assert.is_truthy(boundary and #boundary <= 70 and #boundary >= 16)
    assert.is_nil(seen[boundary])
    seen[boundary] = true
  end
  return ""
end

builders["chunked"] = function(build)
  local i = 0
  local bytes = assert(written(message.write_response, { body = function()
    i = i + 1
    return build.writes[i]
  end }))
  return bytes:match("\r\n\r\n(.*)$")
end

builders["head-each"] = function(build)
  local out = {}
  for i, head in ipairs(build.heads) do out[i] = assert(written(message.write_response, response_of(head))) end
  return table.concat(out)
end

-- Each must be refused with the same code.
local function refusals(write, list, of)
  local seen
  for _, one in ipairs(list) do
    local bytes, text, code = written(write, of(one))
    assert.is_nil(bytes)
    assert.is_string(text)
    seen = seen or code
    assert.equal(seen, code)
  end
  return nil, seen
end

builders["head-each-must-fail"] = function(build) return refusals(message.write_response, build.heads, response_of) end

builders["request-each-must-fail"] = function(build)
  return refusals(message.write_request, build.requests, function(request)
    return { method = request.method, target = request.target, headers = { Host = "a" } }
  end)
end

run["build"] = function(case)
  local bytes, code = builders[case.build.what](case.build)
  if not bytes then return { result = "error", error = code } end
  return { result = "ok", bytes = bytes }
end

-- ---- what is asked of it ----

local function one_of(got, want, alternative, what)
  if got ~= alternative or got == nil then assert.equal(want, got, what) end
end

local function check_parts(want, got, how)
  for i, part in ipairs(want) do
    local mine = got[i] or {}
    local where = ("part %d, %s"):format(i, how)
    assert.equal(part.name, mine.name, where)
    assert.equal(part.filename, mine.filename, where)
    assert.same(part.headers, mine.headers, where)
    assert.equal(part.body or splits.generate(part.body_generate), mine.body, where)
  end
  assert.equal(#want, #got, "number of parts, " .. how)
end

local SAME = { -- field of the case = field of the outcome
  type = "type", name = "name", filename = "filename", basename = "basename", method = "method", target = "target",
  status = "code", reason = "reason", body = "body", rest = "rest", framing = "framing", keep_alive = "keep_alive",
  body_before_error = "body", bytes = "bytes",
}

local function check(case, got, how)
  local want = case.expected
  assert.equal(want.result, got.result, how .. ": " .. tostring(got.message))
  if want.result == "error" then
    one_of(got.error, want.error, want.error_alt, how)
    if want.http_status then one_of(got.status, want.http_status, want.http_status_alt, how) end
  end
  for field, mine in pairs(SAME) do
    if want[field] ~= nil then assert.equal(want[field], got[mine], field .. ", " .. how) end
  end
  for _, text in ipairs(want.contains or {}) do assert.is_truthy(got.bytes:find(text, 1, true), text) end
  for _, text in ipairs(want.not_contains or {}) do assert.is_nil(got.bytes:find(text, 1, true), text) end
  for _, field in ipairs { "headers", "trailers", "interim", "pairs" } do
    if want[field] then assert.same(want[field], got[field], field .. ", " .. how) end
  end
  if want.parts then check_parts(want.parts, got.parts, how) end
  if want.result == "ok" and case.kind:find("^disposition") then
    assert.equal(want.filename, got.filename) -- also when none is expected
  end
end

-- ---- without bound in time or memory? ----

local PAGE = 4 -- KiB

-- Memory of the process in KiB; nil where it cannot be told, or where a sanitizer makes it meaningless.
local function resident()
  local file = not os.getenv("PARTLINE_UNDER") and io.open("/proc/self/statm")
  if not file then return nil end
  local _, pages = file:read("n", "n")
  file:close()
  return pages * PAGE
end

-- The input of a case in blocks that cost nothing: the repeated part is one string, given again and again.
local function blocks_of(generate, size)
  local unit = generate["repeat"]
  local each = math.max(size // #unit, 1)
  local block, whole = unit:rep(each), generate.count // each
  local i = -1
  return function()
    i = i + 1
    if i == 0 then return generate.prefix or "" end
    if i <= whole then return block end
    if i == whole + 1 then return unit:rep(generate.count % each) end
    if i == whole + 2 then return generate.suffix or "" end
    return nil
  end, whole + 3
end

-- Reads everything there is to read; → bytes of content, parts. `read` takes one part's content.
local function drain(case, r, read)
  if case.kind == "request" then
    assert.equal(case.expected.result_after, feed.request(r, { max_head = 64 * 1024 }).result)
    return 0
  end
  local bytes, parts = 0, 0
  for part in multipart.parse(r, case.content_type) do
    parts = parts + 1
    bytes = bytes + assert(read(part.content))
  end
  return bytes, parts
end

local GROWTH = 2048 -- KiB, where the inputs are eight times that

local function check_memory(before, after, what)
  if before then
    local grown = math.ceil(after - before)
    assert.is_true(grown < GROWTH, ("%s grew by %d KiB"):format(what, grown))
  end
end

-- Everything is skipped: no string comes of it.
local function check_bounded_memory(case, size)
  local blocks, count = blocks_of(case.generate, size)
  local asked = 0
  local r = reader.from_function(function()
    asked = asked + 1
    return blocks()
  end)
  collectgarbage()
  local process, lua = resident(), collectgarbage("count")
  local bytes, parts = drain(case, r, r.skip)
  check_memory(process, resident(), "the process")
  check_memory(lua, collectgarbage("count"), "Lua")
  assert.is_true(asked <= count + 1, "asked the source more often than it has pieces")
  if case.expected.body_length then assert.equal(case.expected.body_length, bytes) end
  if case.expected.parts then assert.equal(case.expected.parts, parts) end
end

-- A piece of content for each piece read, but where the end of one must be kept: there 4 KiB at a time.
local function check_bounded_steps(case, size)
  local blocks, count = blocks_of(case.generate, size)
  local pieces = 0
  local bytes = drain(case, reader.from_function(blocks), function(content)
    return content:copy(function() pieces = pieces + 1 end)
  end)
  local most = 2 * count + 16 + bytes // 2048
  assert.is_true(pieces <= most, ("%d pieces, expected at most %d"):format(pieces, most))
end

-- ---- all of them ----

local function title(case)
  return ("%s: %s"):format(case.id, case.title)
end

local function check_fed(case, pieces, how)
  local r = feed.reader(pieces, case.eof)
  local got = run[case.kind](case, r)
  if got.result == "ok" and case.eof then got.rest = r:read("a") end
  check(case, got, how)
end

local function declare(case)
  local reason = WRONG[case.id]
  if reason then return pending(title(case) .. " [" .. reason .. "]") end
  if case.expected.result == "bounded" then
    it(title(case), function()
      local size = case.feed == "bytewise" and 1 or 65536
      check_bounded_memory(case, size)
      check_bounded_steps(case, size)
    end)
    return
  end
  it(title(case), function()
    if case.kind == "build" then return check(case, run.build(case), "built") end
    local bytes = bytes_of(case)
    for pieces, how in splits.pieces_of(bytes, case.feed) do
      check_fed(case, pieces, how)
    end
    -- what a case does not ask for must hold all the same, where it is affordable
    if #bytes <= 2048 then
      splits(bytes, function(pieces, how) check_fed(case, pieces, how) end)
    end
  end)
end

describe("cases.json", function()
  for _, case in ipairs(cases) do declare(case) end

  it("has every case once", function()
    local seen = {}
    for _, case in ipairs(cases) do
      assert.is_nil(seen[case.id], case.id)
      seen[case.id] = true
      assert.is_truthy(run[case.kind], case.kind)
    end
    assert.equal(139, #cases)
    for id in pairs(WRONG) do assert.is_true(seen[id], id .. " is no case") end
  end)

  it("uses codes and statuses that exist", function()
    local errors = core.text.errors()
    for _, case in ipairs(cases) do
      local want = case.expected
      if want.error then
        local known = errors[want.error] or errors[want.error_alt]
        assert.is_truthy(known, case.id .. ": " .. want.error)
      end
    end
  end)
end)
