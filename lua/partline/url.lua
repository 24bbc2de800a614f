--- URLs: parse, build and resolve (RFC 3986), percent coding, queries with repeated keys.
-- @module partline.url

local core = require("partline.core").url

local url = {}

--- Percent-encodes all but letters, digits and `-._~`. `keep` leaves more: `"path"` what a path may hold, `"query"`
-- what a query may hold, `"form"` as forms do (a space becomes `+`), `"url"` all that may stand in a URL, percent signs
-- included.
---@param s string
---@param keep "unreserved"|"path"|"query"|"form"|"url"|nil
---@return string
function url.encode(s, keep)
  return core.encode(s, keep)
end

--- Undoes percent coding; what is no `%XX` stays. `plus`: `+` is a space, as in queries and forms.
---@param s string
---@param plus boolean?
---@return string
function url.decode(s, plus)
  return core.decode(s, plus)
end

-- ---- queries ----

--- The pairs of a query or form, in order and decoded: `{ { name, value }, ... }`.
---@param query string
---@param max integer? most pairs
---@return string[][]|nil
---@return string? message
---@return string? code
function url.query_pairs(query, max)
  return core.pairs(query, max)
end

--- A query as a table: name → value, or a list of values where the name is repeated.
---@param query string
---@param max integer? most pairs
---@return table<string, string|string[]>|nil
---@return string? message
---@return string? code
function url.parse_query(query, max)
  local list, message, code = core.pairs(query, max)
  if not list then return nil, message, code end
  local out = {}
  for _, pair in ipairs(list) do
    local name, value = pair[1], pair[2]
    local before = out[name]
    if before == nil then
      out[name] = value
    elseif type(before) == "table" then
      before[#before + 1] = value
    else
      out[name] = { before, value }
    end
  end
  return out
end

local function text_of(value, what)
  local kind = type(value)
  if kind == "string" then return value end
  if kind == "number" or kind == "boolean" then return tostring(value) end
  error(what .. " must be a string, number or boolean, not a " .. kind, 4)
end

-- Names in alphabetical order: the same table gives the same query.
local function sorted_names(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

--- The pairs of a table of parameters: `{ name = value }`, `{ name = { value, value } }`, or `{ { name, value }, ... }`
-- where the order counts.
---@param t table
---@return string[][]
function url.pairs_of(t)
  local out = {}
  for _, key in ipairs(sorted_names(t)) do
    local name, values = key, t[key]
    if type(key) == "number" and type(values) == "table" then name, values = values[1], values[2] end
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      out[#out + 1] = { text_of(name, "a name"), text_of(value, "a value") }
    end
  end
  return out
end

--- Builds a query; see `pairs_of` for the table. A space becomes `%20`; with `keep` `"form"`, `+`.
---@param t table
---@param keep string?
---@return string
function url.build_query(t, keep)
  local out = {}
  for i, pair in ipairs(url.pairs_of(t)) do
    out[i] = core.encode(pair[1], keep) .. "=" .. core.encode(pair[2], keep)
  end
  return table.concat(out, "&")
end

-- ---- the whole ----

local URL = {}

--- Parses a URI reference: `scheme`, `userinfo`, `host` (with the brackets of an IPv6 address), `port` (a number),
-- `path`, `query` (raw, see `parse_query`), `fragment`; what is absent is nil, the path may be empty. `tostring` builds
-- it again. Blanks and control characters are refused.
---@param s string
---@return partline.URL|nil
---@return string? message
---@return string? code "bad-url"
function url.parse(s)
  local parts, message, code = core.split(s)
  if not parts then return nil, message, code end
  return setmetatable(parts, URL)
end

-- RFC 3986 5.3. A path that begins with "//" without an authority would become one.
local function authority_of(u)
  if not u.host then return "" end
  local host = tostring(u.host)
  if host:find(":", 1, true) and not host:find("^%[") then host = "[" .. host .. "]" end
  return "//" .. (u.userinfo and u.userinfo .. "@" or "") .. host .. (u.port and ":" .. u.port or "")
end

--- Builds a URL of the parts that `parse` gives; `query` may be a table (see `build_query`).
---@param u table
---@return string
function url.build(u)
  local path, query = u.path or "", u.query
  if type(query) == "table" then query = url.build_query(query) end
  if u.host and path ~= "" and path:sub(1, 1) ~= "/" then path = "/" .. path end
  if not u.host and path:sub(1, 2) == "//" then path = "/." .. path end
  return (u.scheme and u.scheme .. ":" or "") .. authority_of(u) .. path
    .. (query and "?" .. query or "") .. (u.fragment and "#" .. u.fragment or "")
end

URL.__tostring = url.build

--- Removes `.` and `..` (RFC 3986 5.2.4).
---@param path string
---@return string
function url.remove_dots(path)
  local rooted = path:sub(1, 1) == "/"
  local out, last = {}, nil
  for segment in ((rooted and path:sub(2) or path) .. "/"):gmatch("([^/]*)/") do
    last = segment
    if segment == ".." then
      out[#out] = nil
    elseif segment ~= "." then
      out[#out + 1] = segment
    end
  end
  if last == "." or last == ".." then out[#out + 1] = "" end -- the slash before it stays
  return (rooted and "/" or "") .. table.concat(out, "/")
end

local function merge(base, path)
  if base.host and base.path == "" then return "/" .. path end
  return base.path:match("^(.*/)") and base.path:match("^(.*/)") .. path or path
end

local function resolve_path(base, ref)
  if ref.path == "" then return base.path, ref.query or base.query end
  if ref.path:sub(1, 1) == "/" then return url.remove_dots(ref.path), ref.query end
  return url.remove_dots(merge(base, ref.path)), ref.query
end

--- Resolves a reference against a base (RFC 3986 5.2.2). Both may be strings or what `parse` gives.
---@param base string|partline.URL
---@param reference string|partline.URL
---@return partline.URL|nil
---@return string? message
---@return string? code
function url.resolve(base, reference)
  local b, r, message, code = base, reference, nil, nil
  if type(b) == "string" then b, message, code = url.parse(b) end
  if b and type(r) == "string" then r, message, code = url.parse(r) end
  if not b or not r then return nil, message, code end
  local out = setmetatable({ fragment = r.fragment }, URL)
  if r.scheme or r.host then
    out.scheme = r.scheme or b.scheme
    out.userinfo, out.host, out.port = r.userinfo, r.host, r.port
    out.path, out.query = url.remove_dots(r.path), r.query
    return out
  end
  out.scheme, out.userinfo, out.host, out.port = b.scheme, b.userinfo, b.host, b.port
  out.path, out.query = resolve_path(b, r)
  return out
end

return url
