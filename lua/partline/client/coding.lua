--- What stands between the bytes of a response and what the program asked for: gzip and deflate, where lua-zlib is
-- installed, and JSON, by lua-cjson or dkjson.
-- @module partline.client.coding

local core = require("partline.core")

local coding = {}

local PIECE = 1024 -- bytes inflated at once: deflate makes at most 1032 bytes of one

local found = {} -- modules looked for once: name → module or false

local function optional(name)
  if found[name] == nil then
    local ok, module = pcall(require, name)
    found[name] = ok and module or false
  end
  return found[name]
end

-- ---- content codings ----

local accepted -- nil: nobody has looked yet

--- The value of Accept-Encoding, or false without lua-zlib.
---@return string|false
function coding.accepted()
  if accepted == nil then accepted = optional("zlib") and "gzip, deflate" end
  return accepted
end

local known = { gzip = true, ["x-gzip"] = true, deflate = true }

local RAW = -15 -- window bits of deflate without a head, as some servers send it

-- Most "deflate" is zlib (RFC 9110 8.4.1.2), whose first two bytes are a multiple of 31.
local function inflater(name, piece)
  local zlib = optional("zlib")
  local a, b = piece:byte(1, 2)
  if name == "deflate" and b and (a & 15 ~= 8 or (a << 8 | b) % 31 ~= 0) then return zlib.inflate(RAW) end
  return zlib.inflate()
end

local function bad(text)
  return nil, "content coding: " .. tostring(text), "bad-content-coding"
end

-- The function that inflates what `inner` gives; a new member of gzip may follow the one before (RFC 1952 2.2).
local function inflated(inner, name)
  local stream, over, begun = nil, false, false
  local rest = ""
  local function step(piece)
    stream = stream or inflater(name, piece)
    local ok, out, ended, used = pcall(stream, piece)
    if not ok then return bad(out) end
    rest, over, begun = "", ended, true
    if ended then
      rest, stream, begun = piece:sub(used + 1), nil, false
      if rest ~= "" and (name == "deflate" or rest:byte() ~= 0x1f) then return bad("bytes behind its end") end
    end
    return out
  end
  return function()
    local piece, message, code = rest, nil, nil
    if piece == "" then piece, message, code = inner:read_some(PIECE) end
    if not stream and piece and #piece == 1 and rest == "" then -- two bytes tell which kind it is
      local more
      more, message, code = inner:read_some(PIECE)
      if message then return nil, message, code end
      piece = piece .. (more or "")
    end
    if piece then return step(piece) end
    if message then return nil, message, code end
    if begun or not over then return nil, "content coding: cut off", "unexpected-eof" end
    return nil
  end
end

--- A Reader of the body without its content codings; the body itself where there are none that we know.
---@param body partline.Reader
---@param value string? the field Content-Encoding
---@return partline.Reader
---@return boolean decoded
function coding.decoded(body, value)
  local name = value and value:lower():match("^%s*([%w-]+)%s*$")
  if not known[name] or not optional("zlib") then return body, false end
  if body:length() == 0 then return body, false end
  if name == "x-gzip" then name = "gzip" end
  local r = core.reader["function"](inflated(body, name))
  r:on_close(function() body:close() end)
  return r, true
end

-- ---- JSON ----

local EXACT = 2.0 ^ 53 -- beyond it a double does not tell which integer it was

-- lua-cjson has a value of its own for null, and its older releases have no integers; dkjson goes by how a number is
-- written. Programs need not know which of them is installed.
local function plain(value)
  local kind = type(value)
  if kind == "number" then return value >= -EXACT and value <= EXACT and math.tointeger(value) or value end
  if kind == "userdata" then return nil end -- null
  if kind ~= "table" then return value end
  for key, inner in next, value do
    if type(inner) ~= "string" then value[key] = plain(inner) end
  end
  return value
end

-- → encode, decode of whatever is installed; decode raises, or returns nil and a message.
local function json()
  local cjson = optional("cjson")
  if cjson then
    return cjson.encode, function(text)
      local ok, value = pcall(cjson.decode, text)
      if not ok then error(value, 0) end
      return plain(value)
    end
  end
  local dkjson = optional("dkjson")
  if not dkjson then return nil end
  return dkjson.encode, function(text)
    local value, at, message = dkjson.decode(text)
    if message then error(message, 0) end
    if text:find("%S", at) then error("text behind the value", 0) end
    return plain(value)
  end
end

local function missing()
  return nil, "JSON needs lua-cjson or dkjson, and neither is installed", "json-unavailable"
end

---@param value any
---@return string|nil
---@return string? message
---@return string? code
function coding.to_json(value)
  local encode = json()
  if not encode then return missing() end
  local ok, text = pcall(encode, value)
  if not ok then return nil, "JSON: " .. tostring(text), "bad-json" end
  return text
end

-- Of a stream of values, one on each line, the first: all of them must be values.
local function first_line(decode, text)
  local first, n
  for line in text:gmatch("[^\r\n]+") do
    local ok, value = pcall(decode, line)
    if not ok then return false end
    if not n then first, n = value, 0 end
  end
  return n ~= nil, first
end

---@param text string
---@return any value
---@return string? message
---@return string? code
function coding.from_json(text)
  local _, decode = json()
  if not decode then return missing() end
  local ok, value = pcall(decode, text)
  if ok then return value end
  local lines, first = first_line(decode, text)
  if lines then return first end
  return nil, "JSON: " .. tostring(value), "bad-json"
end

--- For specs: what is installed is looked for again.
function coding.forget()
  found, accepted = {}, nil
end

return coding
