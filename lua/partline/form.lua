--- Forms read all at once: application/x-www-form-urlencoded and multipart/form-data, with files spooled to a directory
-- and a limit for everything. Those who want the parts as they arrive use `request.parts`.
-- @module partline.form

local core = require("partline.core")
local multipart = require("partline.multipart")
local options = require("partline.options")
local urls = require("partline.url")

local form = {}

local defaults = {
  max_parameters = 1000,               -- fields, repeated ones included
  max_field_size = 1024 * 1024,        -- bytes of one value
  max_fields_size = 8 * 1024 * 1024,   -- bytes of all names and values
  max_files = 100,
  max_file_size = 128 * 1024 * 1024,   -- bytes of one file
  max_files_size = 1024 * 1024 * 1024, -- bytes of all files
}

-- ---- urlencoded ----

--- The pairs of a urlencoded string, in order: `{ { name, value }, … }`. `&` separates, `;` is data, `+` is a space, a
-- bad percent stays, empty names and values are kept.
---@param s string
---@param max integer? most pairs (1000)
---@return string[][]|nil
---@return string? message
---@return string? code `too-many-parameters`
function form.decode(s, max)
  return urls.query_pairs(s, max or defaults.max_parameters)
end

--- Encodes `{ name = value }`, `{ name = { value, value } }` or `{ { name, value }, … }` as browsers do.
---@param t table
---@return string
function form.encode(t)
  return urls.build_query(t, "form")
end

-- ---- what was read ----

---@class partline.Form
---@field fields {name: string, value: string}[] in order, repeated names kept
---@field files {name: string, filename: string, path: string, size: integer, mime_type: string?, headers: table}[]
local Form = {}
Form.__index = Form

local function first(list, name)
  for _, entry in ipairs(list) do
    if entry.name == name then return entry end
  end
  return nil
end

--- The first value of a field, or nil.
---@param name string
---@return string?
function Form:get(name)
  local field = first(self.fields, name)
  return field and field.value
end

--- All values of a field, in order.
---@param name string
---@return string[]
function Form:get_all(name)
  local out = {}
  for _, field in ipairs(self.fields) do
    if field.name == name then out[#out + 1] = field.value end
  end
  return out
end

--- The first file of a name, or nil.
---@param name string
function Form:file(name)
  return first(self.files, name)
end

--- Removes the spooled files that are still where they were put. Also `__close`.
function Form:remove()
  for _, file in ipairs(self.files) do os.remove(file.path) end
end

Form.__close = Form.remove

-- ---- reading ----

local function raise(code, message)
  core.text.raise(message, code)
end

local function add_field(self, limits, name, value)
  if #self.fields >= limits.max_parameters then raise("too-many-parameters", "more fields than the limit") end
  self.bytes = self.bytes + #name + #value
  if #value > limits.max_field_size or self.bytes > limits.max_fields_size then
    raise("body-too-large", "fields over the limit")
  end
  self.fields[#self.fields + 1] = { name = name, value = value }
end

-- A new file that nobody else can open before us: the system's own temporary name, or one in the program's directory.
local function new_file(dir)
  local path = dir and dir .. "/partline-" .. core.random.hex(16) or os.tmpname()
  local handle, message = io.open(path, "wb")
  if not handle then raise("write-failed", message) end
  return handle, path
end

-- What comes back of a Reader, or the error raised: the failure of the body is the form's.
local function check(value, message, code)
  if value == nil and message then raise(code, message) end
  return value
end

local function spool(self, limits, part)
  if #self.files >= limits.max_files then raise("too-many-parts", "more files than the limit") end
  local handle, path = new_file(limits.dir)
  local file = {
    name = part.name, filename = part.filename, ["filename*"] = part["filename*"], path = path, headers = part.headers,
    mime_type = part.headers["Content-Type"], size = 0,
  }
  self.files[#self.files + 1] = file -- from here on remove() knows it
  local most = math.min(limits.max_file_size, limits.max_files_size - self.spooled)
  local size, message, code = part.content:copy(handle, most + 1)
  local closed, why = handle:close()
  file.size = check(size, message, code)
  if size > most then raise("body-too-large", "file over the limit") end
  if not closed then raise("write-failed", why) end
  self.spooled = self.spooled + size
end

-- A file input without a file is sent as an empty part with an empty name.
local function is_no_file(part)
  return part.filename == "" and part.content:peek(1) == nil
end

local function read_parts(self, limits, request)
  local next_part = check(multipart.of_body(request.body, request.headers["Content-Type"], limits))
  while true do
    local part = next_part()
    if not part then return end
    if part.filename then
      if not is_no_file(part) then spool(self, limits, part) end
    else
      add_field(self, limits, part.name, check(part.content:read(limits.max_field_size + 1)) or "")
    end
  end
end

local function read_pairs(self, limits, request)
  local text = check(request.body:read(limits.max_fields_size + 1)) or ""
  if #text > limits.max_fields_size then raise("body-too-large", "form over the limit") end
  for _, pair in ipairs(check(urls.query_pairs(text, limits.max_parameters))) do
    add_field(self, limits, pair[1], pair[2])
  end
end

local function reader_for(content_type)
  local kind = type(content_type) == "string" and content_type:lower():match("^%s*([^%s;]+)")
  if kind == "application/x-www-form-urlencoded" then return read_pairs end
  if kind == "multipart/form-data" then return read_parts end
  return nil
end

--- Reads the form a request carries. A request without a body is an empty form. Limits: `max_parameters` (1000 fields),
-- `max_field_size` (1 MiB), `max_fields_size` (8 MiB together), `max_files` (100), `max_file_size` (128 MiB),
-- `max_files_size` (1 GiB), and those of `multipart.parse`. `dir`: where files are spooled; without it they get names
-- of `os.tmpname`. After a failure no file is left. May yield.
---@param request table as the server or `message.read_request` gives it
---@param opts table?
---@return partline.Form|nil
---@return string? message
---@return string? code
function form.read(request, opts)
  local limits = options.read(opts, defaults)
  local self = setmetatable({ fields = {}, files = {}, bytes = 0, spooled = 0 }, Form)
  if not request.body then return self end
  local read = reader_for(request.headers["Content-Type"])
  if not read then return nil, "the body is not a form", "bad-content-type" end
  local ok, err = pcall(read, self, limits, request)
  if ok then return self end
  self:remove()
  if type(err) ~= "table" or not err.code then error(err, 0) end
  return nil, err.message, err.code
end

return form
