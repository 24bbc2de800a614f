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

-- Adds name and value, or one pair for each element of a list.
local function add(out, name, value)
  for _, one in ipairs(type(value) == "table" and value or { value }) do
    out[#out + 1] = name
    out[#out + 1] = one
  end
end

-- Adds the fields that are not in `seen`, by the alphabet: a table does not know when they were set.
local function add_rest(out, h, seen)
  local names = {}
  for name in pairs(h) do
    if not seen[name] then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do add(out, name, h[name]) end
end

-- The values received of each name that came more than once and has not been changed since: by its name in lower case.
local function unchanged(h, names, values)
  local lists = {}
  for i, name in ipairs(names) do
    local list = lists[name:lower()] or {}
    list[#list + 1] = values[i]
    lists[name:lower()] = list
  end
  for name, list in pairs(lists) do
    local now = h[name]
    if type(now) == "table" then now = table.concat(now, ", ") end
    if now ~= table.concat(list, ", ") then lists[name] = nil end
  end
  return lists
end

-- name1, value1, name2, ...: in the order received, as the table is now.
local function ordered(h)
  local out, seen, names, values = {}, {}, core.order(h)
  local lists = values and unchanged(h, names, values) or {}
  for i, name in ipairs(names or {}) do
    local key = rawget(h, name) ~= nil and name or nil
    if lists[name:lower()] then
      add(out, name, values[i])
    elseif key and not seen[key] then
      add(out, name, h[name])
    end
    if key then seen[key] = true end
  end
  add_rest(out, h, seen)
  return out
end

--- Iterates over name and value in the order received, repeated fields one by one. What was changed since then is given
-- as it is now, what was added comes last.
---@param h partline.Headers|table
---@return fun(): string?, string?
function headers.each(h)
  local list, i = ordered(h), -1
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
