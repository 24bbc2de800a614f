--- Streaming HTTP/1.1 for Lua: readers, heads, chunked bodies and multipart parts over a C core.
-- The submodules load on first use: `require "partline".multipart` is `require "partline.multipart"`.
-- @module partline

local partline = { _VERSION = "partline 0.1.0" }

--- Every error code with the HTTP status a server answers with and a text:
-- `partline.errors[code] = { status =, text = }`.
partline.errors = require("partline.core").text.errors()

--- Like `assert` for what returns `nil, message, code`: passes values through, raises the error object `{ code, status,
-- message }` in place of a failure. A server's handler that lets it through answers with its status.
--
--     local size = partline.check(part.content:save(path))
---@generic T
---@param value T
---@param message string?
---@param code string?
---@return T ...
function partline.check(value, message, code, ...)
  if value == nil and message ~= nil then
    require("partline.core").text.raise(tostring(message), tostring(code or "internal-error"))
  end
  return value, message, code, ...
end

local submodules = {
  reader = true, headers = true, message = true, multipart = true, server = true, connection = true,
  loop = true, parser = true, url = true, form = true, client = true,
}

-- The functions that programs use most.
local from_loop = { sleep = true, spawn = true, run = true }
local from_client = {
  request = true, get = true, head = true, post = true, put = true, delete = true, patch = true, options = true,
}

return setmetatable(partline, {
  __index = function(self, key)
    local value
    if submodules[key] then
      value = require("partline." .. key)
    elseif from_loop[key] then
      value = require("partline.loop")[key]
    elseif from_client[key] then
      value = require("partline.client")[key]
    end
    self[key] = value
    return value
  end,
})
