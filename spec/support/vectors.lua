--- Runs one vector of the converted suites (requests.json, responses.json, chunked.json, multipart/*.json; see their
-- README) and says in what its outcome differs from an expected one.

local feed = require "spec.support.feed"
local splits = require "spec.support.splits"

local M = {}

-- A truncated message is an error to us, and "incomplete" in the words of the vectors.
local function outcome(result)
  if result.result == "need-more" or result.error == "unexpected-eof" then return "incomplete" end
  if result.result == "end" then return "ok" end
  return result.result
end

-- ---- requests and responses ----

local function lacks_host(bytes)
  local head = bytes:match("^(.-\r\n)\r\n") or bytes
  return not ("\n" .. head):lower():find("\nhost[ \t]*:")
end

-- Many vectors come from parsers that leave Host to others: one is put in where the message has none, since without it
-- every one of them would be answered with bad-host. (`about_host`: the vector is about just that.)
local function with_host(bytes)
  local changed, n = bytes:gsub("^([\r\n]*[^\r\n]* HTTP/1%.[1-9]\r\n)", "%1Host: put-in\r\n", 1)
  return n == 1 and changed or nil
end

local function one_message(vector, bytes, cut)
  local head_only = vector.scope == "head"
  local function run(input)
    local r = feed.reader(cut(input), vector.eof)
    if vector.kind == "request" then return feed.request(r, nil, head_only) end
    return feed.response(r, vector.context and vector.context.request_method, nil, head_only)
  end
  local got = run(bytes)
  local more = got.error == "bad-host" and not vector.about_host and lacks_host(bytes) and with_host(bytes)
  if not more then return got, bytes end
  got = run(more)
  for i, field in ipairs(got.headers or {}) do
    if field[2] == "put-in" then table.remove(got.headers, i) end
  end
  return got, more
end

-- Whoever reads messages one by one decides himself when to stop: here after an upgrade. Empty lines at the end of all
-- belong to no message.
local function is_over(vector, got, rest)
  return not rest:find("[^\r\n]") or vector.single or vector.scope == "head" or got.upgrade
    or got.method == "CONNECT"
end

--- → { outcome, messages, leftover, error }
function M.messages(vector, cut)
  local out = { messages = {}, leftover = "" }
  local bytes = vector.input
  repeat
    local got, fed = one_message(vector, bytes, cut)
    out.outcome, out.error = outcome(got), got.error
    table.move(got.interim_heads or {}, 1, #(got.interim_heads or {}), #out.messages + 1, out.messages)
    if got.result ~= "ok" then return out end
    table.insert(out.messages, got)
    bytes = fed:sub(got.used + 1)
  until is_over(vector, got, bytes)
  out.leftover = bytes
  return out
end

local function lower_names(fields)
  local out = {}
  for i, field in ipairs(fields) do out[i] = { field[1]:lower(), field[2] } end
  return out
end

local function show(value)
  if type(value) ~= "table" then return ("%q"):format(value) end
  local out = {}
  for i, field in ipairs(value) do out[i] = ("%q: %q"):format(field[1], field[2]) end
  return "{" .. table.concat(out, ", ") .. "}"
end

local function same(a, b)
  return a == b or (type(a) == "table" and type(b) == "table" and show(a) == show(b))
end

local FIELDS = {
  method = "method", target = "target", version = "version", status = "code", reason = "reason", headers = "headers",
  body = "body",
}

-- Trailers that we drop may be missing.
local function trailers_differ(want, got)
  local i = 1
  for _, field in ipairs(lower_names(want)) do
    if same({ field }, { lower_names(got or {})[i] }) then i = i + 1 end
  end
  return i <= #(got or {})
end

local function message_differs(want, got, head_only)
  for field, mine in pairs(FIELDS) do
    local a, b = want[field], got[mine]
    if field == "headers" and a and b then a, b = lower_names(a), lower_names(b) end
    local interim = got.result == nil and (field == "version" or field == "body")
    local asked = a ~= nil and not interim and not (head_only and field == "body")
    if asked and not same(a, b) then return ("%s is %s, not %s"):format(field, show(b), show(a)) end
  end
  if want.trailers and not head_only and trailers_differ(want.trailers, got.trailers) then
    return "trailers are " .. show(got.trailers)
  end
  return nil
end

--- nil, or how `got` differs from `want` in words.
function M.messages_differ(vector, want, got)
  if want.outcome ~= got.outcome then
    return ("%s%s, not %s"):format(got.outcome, got.error and " (" .. got.error .. ")" or "", want.outcome)
  end
  if got.outcome ~= "ok" then return nil end
  local messages = want.messages or { want.method and want or want.status and want or nil }
  if #messages ~= #got.messages then return ("%d messages, not %d"):format(#got.messages, #messages) end
  for i, message in ipairs(messages) do
    local differs = message_differs(message, got.messages[i], vector.scope == "head")
    if differs then return differs end
  end
  if want.leftover and want.leftover ~= got.leftover then
    return ("left over is %s, not %s"):format(show(got.leftover), show(want.leftover))
  end
  return nil
end

-- ---- chunked ----

function M.chunked(vector, cut)
  local got = feed.chunked(feed.reader(cut(vector.input), false))
  got.outcome = outcome(got)
  got.leftover = got.used and vector.input:sub(got.used + 1)
  return got
end

function M.chunked_differs(_, want, got)
  if want.outcome ~= got.outcome then
    return ("%s%s, not %s"):format(got.outcome, got.error and " (" .. got.error .. ")" or "", want.outcome)
  end
  if got.outcome == "error" then return nil end
  local body = got.body
  if got.outcome ~= "ok" then body = body:sub(1, #(want.body or "")) end -- at least as much of it
  if want.body and want.body ~= body then return ("body is %q, not %q"):format(got.body, want.body) end
  if got.outcome ~= "ok" then return nil end
  if want.trailers and trailers_differ(want.trailers, got.trailers) then
    return "trailers are " .. show(got.trailers)
  end
  if want.leftover and want.leftover ~= got.leftover then return ("left over is %q"):format(got.leftover) end
  return nil
end

-- ---- multipart ----

-- Vectors that know nothing of forms: read as multipart/mixed, as form-data would miss the dispositions.
local function is_form(vector)
  if vector.expected.outcome ~= "ok" then return true end
  for _, part in ipairs(vector.expected.parts or {}) do
    if part.name then return true end
  end
  return vector.input:lower():find("content-disposition", 1, true) ~= nil
end

function M.multipart(vector, cut)
  local content_type = vector.content_type or ""
  if not is_form(vector) then content_type = content_type:gsub("^multipart/form%-data", "multipart/mixed") end
  local got = feed.multipart(feed.reader(cut(vector.input), true), content_type)
  got.outcome = outcome(got)
  return got
end

local function part_differs(want, got)
  if want.name ~= nil and want.name ~= got.name then return ("name is %s, not %q"):format(got.name, want.name) end
  if want.filename ~= got.filename then return ("filename is %s, not %s"):format(got.filename, want.filename) end
  if want.body and want.body ~= got.body then return ("body is %q, not %q"):format(got.body, want.body) end
  if want.body_length and want.body_length ~= #got.body then return ("body has %d bytes"):format(#got.body) end
  if want.headers and not same(lower_names(want.headers), lower_names(got.headers)) then
    return ("headers are %s, not %s"):format(show(got.headers), show(want.headers))
  end
  return nil
end

function M.multipart_differs(_, want, got)
  if want.outcome ~= got.outcome then
    return ("%s%s, not %s"):format(got.outcome, got.error and " (" .. got.error .. ")" or "", want.outcome)
  end
  if got.outcome ~= "ok" then return nil end
  for i, part in ipairs(want.parts) do
    if not got.parts[i] then return ("%d parts, not %d"):format(#got.parts, #want.parts) end
    local differs = part_differs(part, got.parts[i])
    if differs then return ("part %d: %s"):format(i, differs) end
  end
  if #want.parts ~= #got.parts then return ("%d parts, not %d"):format(#got.parts, #want.parts) end
  return nil
end

-- ---- cuts ----

function M.whole(bytes) return { bytes } end

function M.bytewise(bytes)
  return (splits.pieces_of(bytes, "bytewise")())
end

return M
