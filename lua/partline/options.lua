--- Options and limits as programs write them: snake_case, or kebab-case with or without a final `?` for Fennel.
-- @module partline.options

local options = {}

--- The snake_case form of an option's name: `throw-errors?` is `throw_errors`.
---@param name string
---@return string
function options.snake(name)
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
