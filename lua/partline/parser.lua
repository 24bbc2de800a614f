--- Push parsers: for whoever has the bytes already, from an event loop or another server, and wants to be called with
-- what they mean. The same parsers stand behind the Readers, with the same limits and errors (see doc/parser.md).
--
--     local parser = require "partline.parser"
--     local p = parser.request {
--       on_head = function(request, about) print(request.method, request.headers["Host"]) end,
--       on_body = function(bytes) io.write(bytes) end,
--       on_finish = function() print("done") end,
--     }
--     local used, message, code = p:feed(bytes)
-- @module partline.parser

local push = require("partline.core").push
local multipart = require("partline.core").multipart
local options = require("partline.options")

local parser = {}

local function core_limits(given)
  return {
    head = given.max_head, fields = given.max_fields, target = given.max_target, chunk_line = given.max_chunk_line,
    chunk_ext = given.max_chunk_ext, trailer = given.max_trailer, body = given.max_body, parts = given.max_parts,
    part_head = given.max_part_head, part_fields = given.max_part_fields, lower = given.lower_names,
  }
end

-- The callbacks with snake_case names; each is a function or absent.
local function check_callbacks(callbacks, names)
  if type(callbacks) ~= "table" then error("callbacks: table expected, got " .. type(callbacks), 3) end
  local out = options.read(callbacks)
  for name in pairs(names) do
    local f = out[name]
    if f ~= nil and type(f) ~= "function" then error(name .. " must be a function", 3) end
  end
  for name in pairs(out) do
    if not names[name] then error("no such callback: " .. tostring(name), 3) end
  end
  return out
end

local OF_REQUEST = { on_head = true, on_body = true, on_trailers = true, on_finish = true }
local OF_RESPONSE = { on_head = true, on_interim = true, on_body = true, on_trailers = true, on_finish = true }
local OF_MULTIPART = { on_part = true, on_finish = true }

-- For tail calls: whoever called the caller is at level 2.
local function new(role, callbacks, names, opts)
  local given = options.limits(opts, 2)
  local on = check_callbacks(callbacks, names)
  if given.method ~= nil and type(given.method) ~= "string" then error("method must be a string", 2) end
  return push.message(role, core_limits(given), given.method, on.on_head, on.on_interim, on.on_body, on.on_trailers,
    on.on_finish)
end

--- A parser of requests, one after the other. Callbacks: `on_head(request, about)`, `on_body(bytes)`,
-- `on_trailers(headers)`, `on_finish()`; each may be absent.
--
-- `p:feed(bytes [, i [, j]])` returns the number of bytes used, or nil, message, code. It stops behind a message: feed
-- the rest for the next one. `p:finish()` tells the end of input: true, or nil, message, `unexpected-eof`. `p:close()`.
---@param callbacks partline.ParserCallbacks
---@param opts partline.ParserOptions?
---@return partline.Parser
function parser.request(callbacks, opts)
  return new("request", callbacks, OF_REQUEST, opts)
end

--- A parser of responses, one after the other. Interim responses (1xx but 101) go to `on_interim(response, about)`.
-- `opts.method`, or `p:method(m)` before a response: the method of the request that it answers.
---@param callbacks partline.ParserCallbacks
---@param opts partline.ParserOptions?
---@return partline.Parser
function parser.response(callbacks, opts)
  return new("response", callbacks, OF_RESPONSE, opts)
end

--- A parser of a multipart body. `on_part(name, headers, meta, into)` is called when the head of a part is complete;
-- `meta` has `filename`, `["filename*"]`, `type`, `length` and `name`. `into(sink)` says where the content goes: a
-- function, called with each piece and with nil at the end, or an object with `write` and perhaps `finish`. Content
-- without a sink is skipped.
---@param content_type string the whole field value, with its boundary
---@param on_part function|{on_part: function?, on_finish: function?}
---@param limits partline.ParserOptions?
---@return partline.Parser|nil
---@return string? message
---@return string? code
function parser.multipart(content_type, on_part, limits)
  if type(content_type) ~= "string" then error("content type must be a string", 2) end
  local given = options.limits(limits, 2)
  local on = check_callbacks(type(on_part) == "function" and { on_part = on_part } or on_part, OF_MULTIPART)
  local boundary, form, code = multipart.boundary(content_type, given.max_boundary)
  if not boundary then return nil, form, code end
  return push.multipart(boundary, form, core_limits(given), on.on_part, on.on_finish)
end

--- The head of a request in a string, all at once: the request, the index of what follows the head, and what else it
-- says; or nil, `"incomplete"`; or nil, message, code.
--
--     local request, next, about = parser.parse_request(bytes, i)
---@type fun(s: string, i: integer?, opts: partline.ParserOptions?): table?, integer|string, table|string|nil
parser.parse_request = push.parse_request

--- The head of a response, likewise; `opts.method` is that of the request it answers.
---@type fun(s: string, i: integer?, opts: partline.ParserOptions?): table?, integer|string, table|string|nil
parser.parse_response = push.parse_response

return parser
