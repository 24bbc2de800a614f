--- Multipart bodies, part by part (RFC 2046 5.1, RFC 7578). Nothing is read before it is asked for.
-- @module partline.multipart

local core = require("partline.core").multipart
local options = require("partline.options")

local multipart = {}

-- Our names for the limits, and the core's.
local function core_limits(limits, level)
  local given = options.limits(limits, level + 1)
  return {
    parts = given.max_parts, part_head = given.max_part_head, part_fields = given.max_part_fields,
  }, given.max_boundary
end

--- The iterator over the parts of a request's body, for `partline.message`.
---@param body partline.Reader
---@param content_type string
---@param limits table?
---@return function|nil iterator
---@return string? message
---@return string? code
function multipart.of_body(body, content_type, limits)
  local wanted, max_boundary = core_limits(limits, 1)
  local boundary, form, code = core.boundary(content_type, max_boundary)
  if not boundary then return nil, form, code end
  return (core.parts(body, boundary, form, wanted, true))
end

--- Iterates over the parts of a multipart body:
--     for part in multipart.parse(source, content_type) do print(part.name, part.content:read("a")) end
-- A part has `name`, `filename`, `["filename*"]` (decoded), `type`, `headers`, `length` (if it claims one) and
-- `content`, a Reader that ends at the boundary. **One part is live**: moving on skips the rest of the one before,
-- whose Reader then answers `nil, message, "stale-part"`. Failures are raised as an error object
-- `{ code, status, message }`. May yield where the source does.
---@param source any a Reader, string, file handle, function, or object with `read` or `receive`
---@param content_type string the whole field value, with its boundary
---@param limits {max_parts: integer?, max_part_head: integer?, max_part_fields: integer?, max_boundary: integer?}?
---@return fun(): partline.Part? next
---@return nil
---@return nil
---@return userdata closer
function multipart.parse(source, content_type, limits)
  if type(content_type) ~= "string" then error("content type must be a string", 2) end
  local wanted, max_boundary = core_limits(limits, 2)
  local boundary, form, code = core.boundary(content_type, max_boundary)
  if not boundary then require("partline.core").text.raise(form, code) end
  return core.parts(require("partline.reader").of(source, 2), boundary, form, wanted, false)
end

--- A Content-Disposition value taken apart: `type`, `name`, `filename`, `["filename*"]`. With `form`, names decode as
-- browsers encode them (RFC 7578 4.2) and `filename*` stays apart; without, as in a response, `filename*` is preferred
-- (RFC 6266 4.3).
---@param value string
---@param form boolean?
---@return table|nil
---@return string? message
---@return string? code
function multipart.disposition(value, form)
  local found, message, code = core.disposition(value, form)
  if found and not form and found["filename*"] then found.filename = found["filename*"] end
  return found, message, code
end

--- Builds a multipart body of parts: see `partline.build`.
---@param parts table[] `{ name, content, filename, ["filename*"], length, headers, mime_type }` each
---@param opts {subtype: string?, boundary: string?}?
---@return partline.Multipart|nil `{ content_type, length, reader }`
---@return string? message
---@return string? code
function multipart.build(parts, opts)
  return require("partline.build").multipart(parts, opts)
end

--- The last component of a path as any system writes it: nothing of the client's directories survives.
---@param filename string
---@return string
function multipart.basename(filename)
  return (filename:match("[^/\\]*$"))
end

return multipart
