--- Options and limits as programs write them: snake_case, or kebab-case with or without a final `?` for Fennel.
-- @module partline.options

local options = {}

local find = string.find

--- The snake_case form of an option's name: `throw-errors?` is `throw_errors`.
---@param name string
---@return string
function options.snake(name)
  if not find(name, "[-?]") then return name end
  return (name:gsub("%?$", ""):gsub("%-", "_"))
end

--- A copy of `given` with snake_case names, `defaults` behind it.
---@param given table|nil
---@param defaults table|nil
---@return table
function options.read(given, defaults)
  local out = {}
  for name, value in pairs(defaults or {}) do out[name] = value end
  for name, value in pairs(given or {}) do
    out[type(name) == "string" and options.snake(name) or name] = value
  end
  return out
end

-- The limits of heads, bodies and parts, and the most each may be set to: the core counts these in 32 bits.
local LIMITS = {
  max_head = 1 << 30, max_fields = 100000, max_target = 1 << 30, max_chunk_line = 1 << 30, max_chunk_ext = 1 << 30,
  max_trailer = 1 << 30, max_body = math.maxinteger, max_body_in_memory = math.maxinteger, max_parts = 1 << 30,
  max_part_head = 1 << 30, max_part_fields = 10000, max_boundary = 1 << 16,
}

--- A copy of `given` with snake_case names. Limits that are none, or out of range, raise.
---@param given table|nil
---@param level integer? whose fault that is, as for `error` (1: the caller's)
---@return table
function options.limits(given, level)
  level = (level or 1) + 1
  if given ~= nil and type(given) ~= "table" then error("limits: table expected, got " .. type(given), level) end
  local out = options.read(given)
  for name, most in pairs(LIMITS) do
    local value = out[name]
    local n = math.type(value) and math.tointeger(value)
    if value ~= nil and not (n and n >= 0) then error(name .. " must be a non-negative integer", level) end
    if n and n > most then error(("%s must be at most %d"):format(name, most), level) end
  end
  return out
end

local snake = options.snake

local kebab = {
  __index = function(self, name)
    if type(name) ~= "string" or not name:find("[-?]") then return nil end
    return rawget(self, snake(name))
  end,
}

--- Lets a request or response table answer to kebab-case names too: `(. response :reason-phrase)`.
---@generic T: table
---@param message T
---@return T
function options.answer_to_kebab(message)
  return setmetatable(message, kebab)
end

return options
