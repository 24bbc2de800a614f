--- Bodies to send: what may be one, how long it is, whether it can be sent twice; and multipart bodies made of parts
-- (RFC 2046 5.1, RFC 7578). Programs call it as `partline.multipart.build`.
-- @module partline.build

local core = require("partline.core")
local options = require("partline.options")

local class, text = core.reader, core.text
local is_token, is_value = text.is_token, text.is_value
local concat = table.concat

local build = {}

local PIECE = 64 * 1024 -- strings are gathered up to this size; longer ones go out as they are

-- ---- one content ----

---@class partline.Content
---@field length integer? bytes, where known
---@field open fun(): partline.Reader|string
---@field again boolean whether `open` may be called again, for the same bytes

-- A file from where it stands now; what can be rewound can be sent again.
local function of_file(file)
  local at = file:seek("cur")
  return {
    length = class.file(file, -1):length(), again = at ~= nil,
    open = function()
      if at then file:seek("set", at) end
      return class.file(file, -1)
    end,
  }
end

local function of_reader(r)
  return { length = r:length(), again = false, open = function() return r end }
end

-- So many bytes of a content. Who sends a Reader stops at its length; what goes out as a whole is cut here.
local function cut(content, length)
  local n = math.type(length) and math.tointeger(length)
  if not n or n < 0 then error("length must be a non-negative integer", 4) end
  local open, whole = content.open, content.built ~= nil
  return {
    length = n, given = true, again = content.again,
    open = function()
      local x = open()
      if type(x) == "string" then return n <= #x and x:sub(1, n) or class.limit(class.string(x), n, true) end
      return whole and class.limit(x, n, true) or x
    end,
  }
end

--- Whatever may be a body: a string, number, Reader, file handle, function (LTN12 sources are functions), an object
-- with `read` or `receive`, or what `build` gives. `length`: so many bytes are taken.
---@param x any
---@param length integer?
---@return partline.Content
function build.content(x, length)
  local kind = io.type(x) or type(x)
  local content
  if kind == "number" then x, kind = tostring(x), "string" end
  if kind == "string" then
    content = { length = #x, again = true, open = function() return x end }
  elseif kind == "file" then
    content = of_file(x)
  elseif class.is(x) then
    content = of_reader(x)
  elseif kind == "table" and x.content_type and x.reader then
    content = {
      length = x.length, again = x.again ~= nil, built = x, open = x.again or function() return x.reader end,
    }
  elseif kind == "function" or kind == "table" or kind == "userdata" then
    content = of_reader(require("partline.reader").of(x))
  else
    error("a body must be a string, Reader, file, function or object with read, not a " .. kind, 3)
  end
  return length == nil and content or cut(content, length)
end

-- ---- names and heads of parts ----

local escapes = { ['"'] = "%22", ["\r"] = "%0D", ["\n"] = "%0A" }

-- As browsers write names: these three and nothing else (HTML, multipart/form-data encoding algorithm).
local function quoted(name)
  return '"' .. name:gsub('["\r\n]', escapes) .. '"'
end

-- attr-char of RFC 8187 3.2.1 stays.
local function extended(s)
  return "UTF-8''" .. s:gsub("[^%w!#$&+%-.^_`|~]", function(c) return ("%%%02X"):format(c:byte()) end)
end

local function refuse(message, code)
  return nil, message, code or "invalid-header-value"
end

local function disposition(part, form)
  local names = part.name ~= nil or part.filename ~= nil or part["filename*"] ~= nil
  if not names and not part.type then return nil end
  local out = { part.type or form and "form-data" or "attachment" }
  if part.name ~= nil then out[#out + 1] = "name=" .. quoted(tostring(part.name)) end
  if part.filename ~= nil then out[#out + 1] = "filename=" .. quoted(tostring(part.filename)) end
  if part["filename*"] ~= nil then out[#out + 1] = "filename*=" .. extended(tostring(part["filename*"])) end
  return concat(out, "; ")
end

-- name → value, or a list of { name, value }: always the second, in a fixed order.
local function field_list(fields)
  local out = {}
  for key, value in pairs(fields or {}) do
    local pair = type(key) == "number" and value or { key, value }
    local values = type(pair[2]) == "table" and pair[2] or { pair[2] }
    for _, one in ipairs(values) do
      if type(one) == "number" then one = tostring(one) end
      out[#out + 1] = { pair[1], one, rank = type(key) == "number" and key or 0, at = #out }
    end
  end
  table.sort(out, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    local x, y = tostring(a[1]), tostring(b[1])
    if x ~= y then return x < y end
    return a.at < b.at
  end)
  return out
end

local function has(list, wanted)
  for _, field in ipairs(list) do
    if tostring(field[1]):lower() == wanted then return true end
  end
  return false
end

-- The fields of a part in order: what it is, what is in it, then what the program adds or says instead.
local function part_fields(part, form, nested_type)
  local given, out = field_list(part.headers), {}
  local is_file = part.filename ~= nil or part["filename*"] ~= nil
  local mime = part.mime_type or nested_type or is_file and "application/octet-stream" or nil
  local what = disposition(part, form)
  if what and not has(given, "content-disposition") then out[1] = { "Content-Disposition", what } end
  if mime and not has(given, "content-type") then out[#out + 1] = { "Content-Type", mime } end
  return table.move(given, 1, #given, #out + 1, out)
end

local function part_head(part, form, nested_type)
  local out = {}
  for _, field in ipairs(part_fields(part, form, nested_type)) do
    local name, value = field[1], field[2]
    if type(name) ~= "string" or not is_token(name) then
      return refuse("field name of a part is not a token: " .. ("%q"):format(tostring(name)))
    end
    if type(value) ~= "string" or not is_value(value) then
      return refuse("value of " .. name .. " of a part must be one line without control characters")
    end
    if name:lower() == "transfer-encoding" then return refuse("a part has no Transfer-Encoding") end
    out[#out + 1] = name .. ": " .. value .. "\r\n"
  end
  return concat(out) .. "\r\n"
end

-- ---- boundaries ----

-- 128 bits of the system's: whoever writes a part cannot guess it.
local function new_boundary()
  return "----partline" .. core.random.hex(16)
end

-- bchars of RFC 2046 5.1.1
local function check_boundary(boundary)
  if type(boundary) ~= "string" then error("boundary must be a string", 3) end
  if #boundary > 70 then return refuse("boundary over 70 bytes", "boundary-too-long") end
  if not boundary:find("^[%w'()+_,%-./:=? ]*[%w'()+_,%-./:=?]$") then
    return refuse("character not allowed in the boundary", "invalid-boundary")
  end
  return boundary
end

local function parameter(name, value)
  if is_token(value) then return "; " .. name .. "=" .. value end
  return "; " .. name .. '="' .. value:gsub('[\\"]', "\\%0") .. '"'
end

-- ---- the whole ----

-- Gathers short strings, so that a form of many fields is one piece.
local function new_pieces()
  local list, small, size = {}, {}, 0
  local pieces = { list = list, length = 0, again = true }
  local function settle()
    if size > 0 then list[#list + 1] = concat(small) end
    small, size = {}, 0
  end
  function pieces.add(s)
    if #s >= PIECE then
      settle()
      list[#list + 1] = s
    else
      small[#small + 1], size = s, size + #s
      if size >= PIECE then settle() end
    end
    pieces.length = pieces.length and pieces.length + #s
  end
  function pieces.content(c)
    local whole = c.again and not c.given and c.open()
    if type(whole) == "string" then return pieces.add(whole) end
    settle()
    list[#list + 1] = c
    pieces.again = pieces.again and c.again
    pieces.length = pieces.length and c.length and pieces.length + c.length
  end
  pieces.settle = settle
  return pieces
end

-- The bytes of the pieces, as a function for a Reader. Contents give what they have; nothing is gathered.
local function source_of(list)
  local i, current = 0, nil
  return function()
    while true do
      if current then
        local piece, message, code = current:read_some()
        if piece or message then return piece, message, code end
        current = nil
      end
      i = i + 1
      local next_one = list[i]
      if type(next_one) ~= "table" then return next_one end
      current = next_one.open()
      if type(current) == "string" then current = class.string(current) end
      if next_one.length then current = class.limit(current, next_one.length, true) end
    end
  end
end

-- Writes the pieces one by one: a file's or Reader's bytes never become Lua strings.
local function write_all(writer, list)
  for _, piece in ipairs(list) do
    local whole = type(piece) == "table" and piece.open() or piece
    if type(piece) == "table" and piece.length then
      whole = class.limit(type(whole) == "string" and class.string(whole) or whole, piece.length, true)
    end
    local ok, message, code
    if type(whole) == "string" then ok, message, code = writer:write(whole)
    else ok, message, code = whole:copy(writer) end
    if not ok then return nil, message, code end
  end
  return writer
end

local function reader_of(pieces)
  local list = pieces.list
  if #list == 0 then return class.string("") end
  if #list == 1 and type(list[1]) == "string" then return class.string(list[1]) end
  local r = class["function"](source_of(list))
  return pieces.length and class.limit(r, pieces.length, true) or r
end

-- A user's boundary can be looked for where the content is at hand; ours cannot be in it.
local function collides(content, boundary)
  local whole = content.again and content.open()
  return type(whole) == "string" and ("\r\n" .. whole):find("\r\n--" .. boundary, 1, true) ~= nil
end

-- The content of a part, and the media type of a nested multipart; nil, message, code.
local function part_content(part)
  local nested = part.multipart
  if nested then
    local message, code
    nested, message, code = build.multipart(nested, { subtype = part.mime_subtype or "mixed" })
    if not nested then return nil, message, code end
  elseif type(part.content) == "table" and part.content.content_type then
    nested = part.content
  end
  if nested then return build.content(nested), nested.content_type end
  if part.content == nil then error("a part needs a content", 4) end
  return build.content(part.content, part.length)
end

local function add_part(pieces, given, form, boundary, own)
  if type(given) ~= "table" then error("a part must be a table", 3) end
  local part = options.read(given)
  if form and part.name == nil then error("a part of a form needs a name", 3) end
  local content, nested_type, code = part_content(part)
  if not content then return nil, nested_type, code end
  local head, message
  head, message, code = part_head(part, form, nested_type)
  if not head then return nil, message, code end
  if not own and collides(content, boundary) then return refuse("the boundary occurs in a part", "invalid-boundary") end
  pieces.add("--" .. boundary .. "\r\n" .. head)
  pieces.content(content)
  pieces.add("\r\n")
  return part
end

-- RFC 2387: the type of the first part is a parameter of multipart/related.
local function content_type_of(subtype, boundary, opts, first)
  local out = "multipart/" .. subtype
  local root = opts.type or subtype == "related" and first and first.mime_type
  if root then out = out .. parameter("type", root) end
  if opts.start then out = out .. parameter("start", opts.start) end
  return out .. parameter("boundary", boundary)
end

---@class partline.Multipart
---@field content_type string with the boundary
---@field boundary string
---@field length integer? bytes of the whole body, when every part's is known
---@field reader partline.Reader the bytes
---@field again (fun(): partline.Reader)? a new Reader of the same bytes, where every part can be read again
---@field write_to fun(writer: partline.Writer): partline.Writer? writes the bytes; no Lua strings where parts are files

--- Builds a multipart body. A part: `content` (a string, Reader, file handle, function, or what `build` gives),
-- `name`, `filename`, `["filename*"]` (UTF-8; sent in addition, only when given), `length` (so many bytes are taken),
-- `mime_type`, `headers`, `type` (the disposition's), or `multipart` and `mime_subtype` for parts inside the part.
-- Nothing is read before the Reader is.
---@param parts table[]
---@param opts {subtype: string?, boundary: string?, type: string?, start: string?}?
---@return partline.Multipart|nil
---@return string? message
---@return string? code
function build.multipart(parts, opts)
  if type(parts) ~= "table" then error("parts must be a list", 2) end
  opts = options.read(opts)
  local subtype, own = opts.subtype or "form-data", opts.boundary == nil
  if type(subtype) ~= "string" or not is_token(subtype) then return refuse("subtype is not a token") end
  local boundary, message, code = new_boundary(), nil, nil
  if not own then boundary, message, code = check_boundary(opts.boundary) end
  if not boundary then return nil, message, code end
  local pieces, first = new_pieces(), nil
  for _, given in ipairs(parts) do
    local part
    part, message, code = add_part(pieces, given, subtype == "form-data", boundary, own)
    if not part then return nil, message, code end
    first = first or part
  end
  pieces.add("--" .. boundary .. "--\r\n")
  pieces.settle()
  local function open() return reader_of(pieces) end
  local content_type = content_type_of(subtype, boundary, opts, first)
  if not is_value(content_type) then return refuse("parameter of the content type must be one line") end
  return options.answer_to_kebab {
    content_type = content_type, boundary = boundary, length = pieces.length, reader = open(),
    again = pieces.again and open or nil, write_to = function(writer) return write_all(writer, pieces.list) end,
  }
end

return build
