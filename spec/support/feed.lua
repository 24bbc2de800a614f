--- Runs the decoders over bytes that arrive in pieces, and tells what came of it in one shape for all specs.
--
--     local feed = require "spec.support.feed"
--     local out = feed.request(feed.reader(pieces, true))
--
-- `out.result` is "ok" (with `used`, the number of bytes), "error" (with `error`, `message`, `status`) or "need-more":
-- the source had nothing more to give and the read still waits. What was decoded up to then is there in all cases.

local partline = require "partline"
local headers = require "partline.headers"
local message = require "partline.message"
local multipart = require "partline.multipart"
local reader = require "partline.reader"

local M = {}

local WAITING = {}

--- A Reader over `pieces` through a function. Without `eof` the source yields for ever after the last one.
-- `asked` counts the calls.
function M.reader(pieces, eof, asked)
  local i = 0
  return reader.from_function(function()
    if asked then asked.calls = (asked.calls or 0) + 1 end
    i = i + 1
    while not pieces[i] and not eof do coroutine.yield(WAITING) end
    return pieces[i]
  end)
end

--- All of `h` as { { name, value }, ... } in order.
function M.fields(h)
  local out = {}
  for name, value in headers.each(h) do out[#out + 1] = { name, value } end
  return out
end

local function refused(out, text, code)
  assert(type(text) == "string" and #text > 0, "a failure has a message")
  assert(partline.errors[code], "unknown code " .. tostring(code))
  out.result, out.error, out.message, out.status = "error", code, text, partline.errors[code].status
end

-- Reads all of a Reader into `into[key]`; false when it failed. `arrived` is for a read that is left waiting.
local function gather(out, key, r, into)
  local pieces = {}
  into = into or out
  out.arrived = function() into[key] = table.concat(pieces) end
  local got, text, code = r:copy(function(piece) pieces[#pieces + 1] = piece end)
  out.arrived()
  if got then
    assert(got == #into[key], "copy tells how many bytes it moved")
    return true
  end
  refused(out, text, code)
  return false
end

local function finished(out, r)
  out.result = "ok"
  out.used = select(2, r:status())
end

-- decode(out, ...) in a coroutine of its own; raised error objects become results.
local function run(decode, ...)
  local out = {}
  local task = coroutine.create(function(...)
    local ok, err = xpcall(decode, function(e)
      if type(e) == "table" and e.code then return e end
      return debug.traceback(tostring(e), 2)
    end, out, ...)
    if ok then return end
    if type(err) ~= "table" then error(err, 0) end
    assert(tostring(err) == err.message, "the text of an error object is its message")
    refused(out, err.message, err.code)
    assert(err.status == out.status, "the error object has the status of its code")
  end)
  local ok, err = coroutine.resume(task, ...)
  if not ok then error(err, 0) end
  if coroutine.status(task) == "suspended" then
    assert(err == WAITING, "something else yielded")
    out.result = "need-more"
    if out.arrived then out.arrived() end
  end
  return out
end

local function read_parts(out, r, content_type, limits)
  out.parts = {}
  for part in multipart.parse(r, content_type, limits) do
    local one = {
      name = part.name, filename = part.filename, filename_ext = part["filename*"], type = part.type,
      length = part.length, headers = M.fields(part.headers),
    }
    out.parts[#out.parts + 1] = one
    if not gather(out, "body", part.content, one) then return end
  end
  finished(out, r)
end

--- parts = { { name, filename, filename_ext, type, length, headers, body }, ... }
function M.multipart(r, content_type, limits)
  return run(read_parts, r, content_type, limits)
end

local function read_chunked(out, r, limits)
  local body = reader.chunked(r, limits)
  if not gather(out, "body", body) then return end
  out.trailers = M.fields(body:trailers())
  finished(out, r)
end

--- body, trailers
function M.chunked(r, limits)
  return run(read_chunked, r, limits)
end

local function framing_of(m)
  if not m.body then return "none" end
  if m.length then return "length" end
  return tostring(m.body):find("^reader %(chunked") and "chunked" or "until-close"
end

local function read_body(out, m, about, r, head_only)
  out.headers, out.keep_alive, out.upgrade = M.fields(m.headers), about.keep_alive, about.upgrade
  out.framing = framing_of(m)
  out.version = ("%d.%d"):format(m.protocol_version.major, m.protocol_version.minor)
  if m.body and not head_only then
    if not gather(out, "body", m.body) then return end
    local trailers = m.body:trailers()
    out.trailers = trailers and M.fields(trailers)
  end
  out.body = out.body or ""
  finished(out, r)
end

local function read_request(out, r, limits, head_only)
  local request, about, code = message.next_request(r, message.parser(limits))
  if not request and about == nil then
    out.result = "end"
    return
  end
  if not request then return refused(out, about, code) end
  out.method, out.target, out.path, out.query = request.method, request.target, request.path, request.query
  out.expect = about.expect
  read_body(out, request, about, r, head_only)
end

--- method, target, path, query, version, headers, framing, body, trailers, keep_alive, expect, upgrade; `result` may
-- also be "end": the input ended before a message began.
function M.request(r, limits, head_only)
  return run(read_request, r, limits, head_only)
end

local function read_response(out, r, method, limits, head_only)
  out.interim, out.interim_heads = {}, {}
  local response, about, code = message.next_response(r, message.parser(limits), method, function(interim)
    table.insert(out.interim, interim.status)
    table.insert(out.interim_heads, {
      code = interim.status, reason = interim.reason_phrase, headers = M.fields(interim.headers),
    })
  end)
  if not response and about == nil then
    out.result = "end"
    return
  end
  if not response then return refused(out, about, code) end
  out.code, out.reason = response.status, response.reason_phrase
  read_body(out, response, about, r, head_only)
end

--- code (the status), reason, version, headers, framing, body, trailers, keep_alive, upgrade, interim (statuses),
-- interim_heads
function M.response(r, method, limits, head_only)
  return run(read_response, r, method, limits, head_only)
end

return M
