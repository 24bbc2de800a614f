---@meta partline.url

---@class partline.URL
---@field scheme string?
---@field userinfo string?
---@field host string? with the brackets of an IPv6 address
---@field port integer?
---@field path string
---@field query string|table|nil
---@field fragment string?

---@class partline.URLModule
local url = {}

---@param s string
---@return partline.URL?
---@return string? message
---@return partline.Code? code "bad-url"
function url.parse(s) end

---@param u partline.URL|table
---@return string
function url.build(u) end

---@param base string|partline.URL
---@param reference string|partline.URL
---@return partline.URL?
---@return string? message
---@return partline.Code? code
function url.resolve(base, reference) end

---@param path string
---@return string
function url.remove_dots(path) end

---@param s string
---@param keep? "unreserved"|"path"|"query"|"form"|"url"
---@return string
function url.encode(s, keep) end

---@param s string
---@param plus? boolean
---@return string
function url.decode(s, plus) end

---@param query string
---@param max? integer
---@return table<string, string|string[]>?
---@return string? message
---@return partline.Code? code
function url.parse_query(query, max) end

---@param query string
---@param max? integer
---@return string[][]?
---@return string? message
---@return partline.Code? code
function url.query_pairs(query, max) end

---@param t table
---@param keep? string
---@return string
function url.build_query(t, keep) end

---@param t table
---@return string[][]
function url.pairs_of(t) end

return url
