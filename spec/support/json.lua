--- Test data in JSON. Bytes 0-255 are written there as the characters U+0000 to U+00FF; here they are bytes again.
--
--     local cases = require("spec.support.json").load("spec/data/cases.json")
--
-- null becomes nil, whole numbers become integers. Characters above U+00FF (in titles and notes) stay UTF-8.

local M = {}

local found, cjson = pcall(require, "cjson")
local decode = found and cjson.decode or require("dkjson").decode
local null = found and cjson.null or nil

local LATIN1 = {}
for byte = 0x80, 0xFF do
  LATIN1[utf8.char(byte)] = string.char(byte)
end

local function bytes(s)
  return (s:gsub("[\xC2\xC3][\x80-\xBF]", LATIN1))
end

local function convert(value)
  local kind = type(value)
  if kind == "string" then
    return bytes(value)
  elseif kind == "number" then
    return math.tointeger(value) or value
  elseif kind ~= "table" then
    return value
  end
  local out = {}
  for k, v in pairs(value) do
    if v ~= null then
      out[convert(k)] = convert(v)
    end
  end
  return out
end

function M.decode(text)
  local value, _, err = decode(text)
  assert(err == nil, err)
  return convert(value)
end

function M.load(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return M.decode(text)
end

return M
