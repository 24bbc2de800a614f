--- Field tables: keys as received, values strings, look-up that ignores case; repeated fields are joined with `", "`,
-- except `Set-Cookie`, which is always a list (RFC 9110 5.3).
-- @module partline.headers

local core = require("partline.core").head

local headers = {}

--- Gives `t` (or a new table) the look-up that ignores case.
---@param t table?
---@return partline.Headers
function headers.new(t)
  return core.wrap(t or {})
end

-- Tables that were not received have no order but the alphabet's.
local function pairs_of(h)
  local names, out = {}, {}
  for name in pairs(h) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local value = h[name]
    for _, one in ipairs(type(value) == "table" and value or { value }) do
      out[#out + 1] = name
      out[#out + 1] = one
    end
  end
  return out
end

--- Iterates over name and value in the order received, repeated fields one by one. A table changed since then is
-- given as it was received.
---@param h partline.Headers|table
---@return fun(): string?, string?
function headers.each(h)
  local list, i = core.order(h) or pairs_of(h), -1
  return function()
    i = i + 2
    return list[i], list[i + 1]
  end
end

--- All values of a field, in order; an empty list when there is none.
---@param h partline.Headers|table
---@param name string
---@return string[]
function headers.get_all(h, name)
  local out, wanted = {}, name:lower()
  for key, value in headers.each(h) do
    if tostring(key):lower() == wanted then out[#out + 1] = value end
  end
  return out
end

--- The first value of a field in any table, ignoring case; nil when there is none.
---@param h table?
---@param name string
---@return any
function headers.get(h, name)
  if not h then return nil end
  local value = h[name]
  if value ~= nil then return value end
  local wanted = name:lower()
  for key, other in pairs(h) do
    if type(key) == "string" and key:lower() == wanted then return other end
  end
  return nil
end

return headers
