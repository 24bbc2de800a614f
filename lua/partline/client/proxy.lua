--- Which proxy a request goes through: the `proxy` option, or http_proxy, https_proxy, all_proxy and no_proxy as curl
-- reads them.
-- @module partline.client.proxy

local url = require("partline.url")

local proxy = {}

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function digit(bits)
  return alphabet:sub(bits + 1, bits + 1)
end

local function base64(s)
  local out = {}
  for i = 1, #s, 3 do
    local a, b, c = s:byte(i, i + 2)
    local bits = a << 16 | (b or 0) << 8 | (c or 0)
    out[#out + 1] = digit(bits >> 18) .. digit(bits >> 12 & 63) .. (b and digit(bits >> 6 & 63) or "=")
      .. (c and digit(bits & 63) or "=")
  end
  return table.concat(out)
end

--- The value of Authorization for a URL's userinfo (RFC 7617).
---@param userinfo string
---@return string
function proxy.basic(userinfo)
  local user, password = userinfo:match("^([^:]*):?(.*)$")
  return "Basic " .. base64(url.decode(user) .. ":" .. url.decode(password))
end

-- ---- the option ----

local function parsed(s)
  if not s:find("://", 1, true) then s = "http://" .. s end
  local u, message, code = url.parse(s)
  if not u then return nil, "proxy: " .. message, code end
  if u.scheme:lower() ~= "http" then return nil, "proxy: only http:// is supported, not " .. u.scheme, "bad-proxy" end
  if not u.host or u.host == "" then return nil, "proxy: no host in its URL", "bad-proxy" end
  return { host = u.host, port = u.port or 80, userinfo = u.userinfo }
end

-- ---- the environment ----

local function env(name)
  local value = os.getenv(name)
  if value == "" then return nil end
  return value
end

-- HTTP_PROXY in capitals is what a CGI program finds when a client sends a field "Proxy": only the small one counts.
local function from_environment(scheme)
  if scheme == "https" then
    return env "https_proxy" or env "HTTPS_PROXY" or env "all_proxy" or env "ALL_PROXY"
  end
  return env "http_proxy" or env "all_proxy" or env "ALL_PROXY"
end

local function ipv4(s)
  local a, b, c, d = s:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  return a and tonumber(a) << 24 | tonumber(b) << 16 | tonumber(c) << 8 | tonumber(d)
end

-- 10.0.0.0/8
local function in_network(entry, host)
  local net, bits = entry:match("^([%d.]+)/(%d+)$")
  local a, b = net and ipv4(net), ipv4(host)
  if not a or not b then return false end
  local shift = 32 - math.min(tonumber(bits), 32)
  return a >> shift == b >> shift
end

local function matches(entry, host, port)
  local name, wanted_port = entry:match("^(%[?.-%]?):(%d+)$")
  if name and not name:find(":[^%]]*$") then
    if tonumber(wanted_port) ~= port then return false end
    entry = name
  end
  entry = entry:gsub("^%*?%.", ""):gsub("^%[(.*)%]$", "%1")
  return host == entry or host:sub(-#entry - 1) == "." .. entry or in_network(entry, host)
end

--- Whether no_proxy names the host.
---@param list string
---@param host string
---@param port integer
---@return boolean
function proxy.excluded(list, host, port)
  host = host:lower():gsub("^%[(.*)%]$", "%1"):gsub("%.$", "")
  for entry in list:lower():gmatch("[^,%s]+") do
    if entry == "*" or matches(entry, host, port) then return true end
  end
  return false
end

--- The proxy of a request: { host, port, userinfo }, false for none, or nil, message, code.
---@param given string|table|false|nil the option; nil: the environment decides
---@param scheme string
---@param host string
---@param port integer
---@return table|false|nil
---@return string? message
---@return string? code
function proxy.choose(given, scheme, host, port)
  if given == false then return false end
  if type(given) == "table" then return given end
  if given == nil then
    given = from_environment(scheme)
    local list = given and (env "no_proxy" or env "NO_PROXY")
    if not given or list and proxy.excluded(list, host, port) then return false end
  end
  return parsed(given)
end

return proxy
