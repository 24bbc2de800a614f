--- Requests and responses from a Reader and to a Writer, for use with or without server and client (RFC 9112).
-- @module partline.message

local core = require("partline.core")
local class = core.reader
local headers = require("partline.headers")
local multipart = require("partline.multipart")
local options = require("partline.options")
local writing = require("partline.writing")

local message = {}

local MAX_ALL = 64 * 1024 * 1024 -- most that read("a") gathers of a request body

-- Limits as programs write them and as the core takes them.
local function head_limits(given)
  return { head = given.max_head, fields = given.max_fields, target = given.max_target }
end

local function chunk_limits(given, lenient)
  return {
    lenient = lenient, chunk_line = given.max_chunk_line, chunk_ext = given.max_chunk_ext,
    trailer = given.max_trailer,
  }
end

--- The memory and limits of one connection's heads, to be used for one message after the other. With `late_headers`,
-- `request.headers` is built when it is first asked for (or shown by `pairs`), which saves a third of what reading a
-- head costs where nobody asks.
---@param limits table?
---@param level integer? whose fault a limit that is none is, as for `error` (1: the caller's)
---@return table
function message.parser(limits, level)
  local given = options.limits(limits, (level or 1) + 1)
  return { head = core.head.new(head_limits(given)), limits = given, late = given.late_headers }
end

local function body_reader(reader, framing, length, limits, lenient)
  if framing == "length" then return class.limit(reader, length, true) end
  if framing == "chunked" then return class.chunked(reader, chunk_limits(limits, lenient)) end
  if framing == "close" then return class.limit(reader, math.maxinteger, false) end
  return nil
end

message.body_reader = body_reader

local function is_multipart(content_type)
  return type(content_type) == "string" and content_type:lower():match("^%s*multipart/") ~= nil
end

-- `content`, or `parts` for multipart; a boundary that cannot be used is told when the parts are asked for.
local function add_content(request, body, limits)
  request.body = body
  local content_type = request.headers["Content-Type"]
  if not is_multipart(content_type) then
    request.content = body
    return
  end
  local parts, text, code = multipart.of_body(body, content_type, limits)
  request.parts = parts or function() core.text.raise(text, code) end
end

--- Gives a request its body, where the head told of one (`framing`): the raw Reader under `body`, and `content` or
-- `parts`.
function message.add_body(request, reader, framing, limits)
  local body = body_reader(reader, framing, request.length, limits, false)
  body:limits { max_all = limits.max_body_in_memory or MAX_ALL }
  add_content(request, body, limits)
end

--- Reads a request with a parser made by `message.parser`: what `read_request` gives, and a table with `keep_alive`,
-- `expect` ("continue", "other" or nil), `upgrade`, `body` (the raw Reader or nil), and the `method` and `http10` that
-- an answer needs.
---@param reader partline.Reader
---@param parser table
---@return table|nil request
---@return string|table|nil message_or_about
---@return string? code
function message.next_request(reader, parser)
  local request, about, code = parser.head:read(reader, "request", nil, parser.late)
  if not request then return nil, about, code end
  if about.framing ~= "none" then message.add_body(request, reader, about.framing, parser.limits) end
  return request, {
    keep_alive = about.keep_alive, expect = about.expect, upgrade = about.upgrade, body = request.body,
    method = request.method, http10 = about.http10,
  }
end

local function check_reader(reader)
  if not class.is(reader) then error("partline.reader expected, got " .. type(reader), 3) end
end

--- Reads a request: `method`, `target`, `path`, `query`, `protocol_version`, `headers`, `length`, and for a body
-- `content` (a Reader) or, for `multipart/*`, `parts` (the iterator); `body` is the raw Reader in both cases. Nothing
-- of the body is read. May yield.
---@param reader partline.Reader
---@param limits {max_head: integer?, max_fields: integer?, max_target: integer?}?
---@return table|nil request nil alone at a clean end
---@return string? message
---@return string? code
function message.read_request(reader, limits)
  check_reader(reader)
  local request, text, code = message.next_request(reader, message.parser(limits, 2))
  if request then return request end
  if text == nil then return nil end
  return nil, text, code
end

local function read_one_response(reader, parser, method)
  local response, about, code = parser.head:read(reader, "response", method)
  if not response then return nil, about, code end
  response.body = body_reader(reader, about.framing, response.length, parser.limits, true)
  return response, { keep_alive = about.keep_alive, upgrade = about.upgrade }
end

--- Reads a response with a parser made by `message.parser`; interim ones (1xx but 101) are skipped or given to
-- `on_interim`. The second value is a table with `keep_alive` and `upgrade`.
---@param reader partline.Reader
---@param parser table
---@param method string? of the request it answers
---@param on_interim fun(response: table)?
function message.next_response(reader, parser, method, on_interim)
  while true do
    local response, about, code = read_one_response(reader, parser, method)
    if not response then return nil, about, code end
    if response.status >= 200 or response.status == 101 then return response, about end
    if on_interim then on_interim(response) end
  end
end

--- Reads a response: `status`, `reason_phrase`, `protocol_version`, `headers`, `length` and `body` (a Reader, or nil
-- where there is none). Interim responses before it are skipped. May yield.
---@param reader partline.Reader
---@param request {method: string?}? what it answers: HEAD and CONNECT change where the body ends
---@param limits table?
---@return table|nil response nil alone at a clean end
---@return string? message
---@return string? code
function message.read_response(reader, request, limits)
  check_reader(reader)
  local method = request and request.method
  local response, text, code = message.next_response(reader, message.parser(limits, 2), method)
  if response then return response end
  if text == nil then return nil end
  return nil, text, code
end

--- Writes a request: `method`, `target` (or `path` and `query`), `headers`, `body` (string, Reader, file handle or
-- function). Content-Length is set by us where the length is known, else the body is chunked. Refused before a byte is
-- sent, with code `invalid-request-line` or `invalid-header-value`: control characters, a Transfer-Encoding, a
-- Content-Length that is not the body's. May yield.
---@param writer any a Writer, function, file handle, or object with `write` or `send`
---@param request table
---@return partline.Writer|nil
---@return string? message
---@return string? code
function message.write_request(writer, request)
  return writing.write_request(writing.over(writer), request)
end

--- Writes a response; see `partline.writing` for its fields and for `about`. May yield.
---@param writer any a Writer, function, file handle, or object with `write` or `send`
---@param response table
---@param about {method: string?, http10: boolean?, keep_alive: boolean?}?
---@return boolean|nil keep_alive whether the connection may go on; nil, message, code when it failed
---@return string? message
---@return string? code
function message.write_response(writer, response, about)
  return writing.write_response(writing.over(writer), response, about)
end

message.headers = headers

return message
