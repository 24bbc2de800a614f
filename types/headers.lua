---@meta partline.headers

---Keys as received; look-up ignores case. Values are strings; Set-Cookie is always a list.
---@class partline.Headers
---@field [string] string | string[]

---@class partline.HeadersModule
local headers = {}

---@param t? table
---@return partline.Headers
function headers.new(t) end

---In the order received, repeated names one by one.
---@param h partline.Headers | table
---@return fun(): string?, string?
function headers.each(h) end

---@param h partline.Headers | table
---@param name string
---@return string[]
function headers.get_all(h, name) end

---@param h table?
---@param name string
---@return any
function headers.get(h, name) end

return headers
