--- What a request of the client is, decided before its first byte: where it goes, its fields, its body.
-- @module partline.client.request

local build = require("partline.build")
local coding = require("partline.client.coding")
local core = require("partline.core")
local default_loop = require("partline.loop")
local headers_of = require("partline.headers")
local options = require("partline.options")
local pools = require("partline.client.pool")
local proxies = require("partline.client.proxy")
local urls = require("partline.url")
local writing = require("partline.writing")

local request = {}

local USER_AGENT = "partline/0.1.0"

local kinds = { raw = true, stream = true, json = true }

local ports = { http = 80, https = 443 }

local function fail(text, code)
  return nil, text, code
end

-- ---- where to ----

local function bracketless(host)
  return (host:gsub("^%[(.*)%]$", "%1"))
end

-- Bytes that a URL may hold only encoded are encoded; what is encoded stays.
local function tidy(part)
  return part and urls.encode(part, "url")
end

-- A URL without a scheme is http, as browsers take it ("localhost:8000" has no scheme "localhost").
function request.parse(given)
  if type(given) == "table" then given = urls.build(given) end
  if not given:find("^%a[%w+.-]*://") then given = "http://" .. given end
  local u, text, code = urls.parse(given)
  if not u then return nil, text, code end
  u.scheme = u.scheme:lower()
  if not ports[u.scheme] then return fail("unsupported URL scheme: " .. u.scheme, "unsupported-scheme") end
  if not u.host or u.host == "" then return fail("URL without a host", "bad-url") end
  u.host, u.path, u.query, u.fragment = u.host:lower(), tidy(u.path), tidy(u.query), nil
  return u
end

local function port_of(u)
  return u.port or ports[u.scheme]
end

local function host_field(u)
  return u.port and u.port ~= ports[u.scheme] and u.host .. ":" .. u.port or u.host
end

local function target_of(u, through_proxy)
  local target = (u.path == "" and "/" or u.path) .. (u.query and "?" .. u.query or "")
  if through_proxy then return u.scheme .. "://" .. host_field(u) .. target end
  return target
end

function request.same_origin(a, b)
  return a.scheme == b.scheme and a.host == b.host and port_of(a) == port_of(b)
end

-- A text that differs where connections must not be shared.
local function signature(t)
  if type(t) ~= "table" then return tostring(t) end
  local out = {}
  for name, value in pairs(t) do out[#out + 1] = options.snake(tostring(name)) .. "=" .. signature(value) end
  table.sort(out)
  return "{" .. table.concat(out, ";") .. "}"
end

-- Where the connection goes, and the key under which it is kept.
function request.route(job)
  local u, opts = job.url, job.opts
  local proxy, text, code = false, nil, nil
  if not job.unix then proxy, text, code = proxies.choose(opts.proxy, u.scheme, bracketless(u.host), port_of(u)) end
  if proxy == nil then return nil, text, code end
  local tls = u.scheme == "https" and (job.tls or {})
  local route = { host = u.host, port = port_of(u), unix = job.unix, tls = tls, proxy = proxy }
  route.key = table.concat({
    u.scheme, u.host, route.port, tls and signature(job.tls) or "", signature(proxy), job.unix or "",
    opts.loop and tostring(opts.loop) or "",
  }, " ")
  return route
end

-- ---- the request's fields ----

-- The program's fields by lower-case name, and all of them as a list of { name, value } in a fixed order.
local function fields_of(given)
  local by_name, list = {}, {}
  for name, value in headers_of.each(given or {}) do
    if type(name) == "number" and type(value) == "table" then name, value = value[1], value[2] end
    local key = tostring(name):lower()
    by_name[key] = by_name[key] or value
    list[#list + 1] = { name, value, key }
  end
  return by_name, list
end

-- Fields that say who is asking: not for another origin (Fetch 4.4, RFC 9110 15.4).
request.credentials = { authorization = true, cookie = true, ["proxy-authorization"] = true, host = true }

-- Fields that describe a body: not for a request that has lost it.
request.about_body = {
  ["content-type"] = true, ["content-length"] = true, ["content-encoding"] = true, ["content-language"] = true,
  ["content-location"] = true, ["content-disposition"] = true, ["transfer-encoding"] = true, expect = true,
  trailer = true, digest = true, ["content-md5"] = true,
}

function request.without(list, unwanted)
  local out = {}
  for _, field in ipairs(list) do
    if not unwanted[field[3]] then out[#out + 1] = field end
  end
  return out
end

-- What we say where the program does not: { name, value }, false for nothing.
local function our_fields(job, route)
  local u, through = job.url, route.proxy and not route.tls and route.proxy.userinfo
  return {
    { "User-Agent", USER_AGENT },
    { "Accept", job.opts.as == "json" and "application/json" },
    { "Accept-Encoding", job.decode and job.own.range == nil and coding.accepted() },
    { "Authorization", u.userinfo and proxies.basic(u.userinfo) },
    { "Content-Type", job.content_type },
    { "Expect", job.expect and "100-continue" },
    { "Connection", job.pool == false and "close" },
    { "Proxy-Authorization", through and proxies.basic(through) },
  }
end

-- All of them; Host comes first (RFC 9110 7.2). What is meant for a proxy stays out of its tunnel.
local function request_fields(job, route)
  local own, direct = {}, not route.proxy or route.tls
  for _, field in ipairs(job.fields) do own[field[3]] = field[2] end
  local out = { { "Host", own.host or host_field(job.url) } }
  for _, field in ipairs(our_fields(job, route)) do
    if field[2] and own[field[1]:lower()] == nil then out[#out + 1] = field end
  end
  for _, field in ipairs(job.fields) do
    local hidden = field[3] == "host" or field[3] == "proxy-authorization" and direct
    if not hidden then out[#out + 1] = { field[1], field[2] } end
  end
  return out
end

-- ---- the request's body ----

-- Parts as the `multipart` option gives them; a Content-Type of the program's may bring its boundary.
local function multipart_content(opts, own)
  local given = own["content-type"]
  local subtype, boundary = opts.mime_subtype, opts.boundary
  if type(given) == "string" then
    subtype = subtype or given:lower():match("^%s*multipart/([^%s;]+)")
    boundary = boundary or core.multipart.boundary(given, 70) or nil
  end
  local how = { subtype = subtype, boundary = boundary, type = opts.type }
  local built, text, code = build.multipart(opts.multipart, how)
  if not built then return nil, text, code end
  return build.content(built), built.content_type, true
end

local function is_plain_table(x)
  return type(x) == "table" and not io.type(x) and not x.read and not x.receive and not (x.content_type and x.reader)
end

local function json_content(value)
  local text, why, code = coding.to_json(value)
  if not text then return nil, why, code end
  return build.content(text), "application/json"
end

-- → content, its Content-Type, whether that replaces the program's; false for no body; nil, message, code.
local function content_of(opts, own)
  if opts.multipart then return multipart_content(opts, own) end
  if opts.form then
    return build.content(urls.build_query(opts.form, "form")), "application/x-www-form-urlencoded"
  end
  local body = opts.body
  if body == nil then return false end
  if is_plain_table(body) then return json_content(body) end
  local content = build.content(body, opts.length)
  return content, type(body) == "table" and body.content_type or nil
end

local function check_body(opts)
  local n = (opts.body ~= nil and 1 or 0) + (opts.multipart and 1 or 0) + (opts.form and 1 or 0)
  if n > 1 then error("only one of body, multipart and form can be sent", 4) end
  local json = opts.as == "json" or tostring(headers_of.get(opts.headers, "content-type")):lower():find("json", 1, true)
  if is_plain_table(opts.body) and not json then error("a table as body needs as = 'json'", 4) end
end

function request.prepare(job, route)
  local content = job.content
  return writing.prepare_request {
    method = job.method, target = target_of(job.url, route.proxy and not route.tls),
    headers = request_fields(job, route), body = content and (content.built or content.open()) or nil,
    length = content and content.length or nil,
  }
end

-- ---- the job ----

local shared = nil -- the pool of everybody who brings none

local function pool_of(opts)
  if opts.pool ~= nil then return opts.pool end
  shared = shared or pools.new()
  return shared
end

local loose -- lends connections that are kept nowhere

-- A query of the URL and the query_params behind it.
local function add_query(u, params)
  if params == nil then return end
  local more = type(params) == "string" and params or urls.build_query(params)
  if more == "" then return end
  u.query = u.query and u.query ~= "" and u.query .. "&" .. more or more
end

local function wants_continue(opts, own, content)
  if own.expect then return tostring(own.expect):lower() == "100-continue" end
  if opts.expect ~= nil then return opts.expect and content and true or false end
  return content and content.length and content.length > opts.expect_over or false
end

-- Everything that is decided before the first byte. → job | nil, message, code.
function request.new(method, given_url, opts)
  local u, text, code = request.parse(given_url)
  if not u then return nil, text, code end
  add_query(u, opts.query_params)
  local own, fields = fields_of(opts.headers)
  local content, content_type, replaces = content_of(opts, own)
  if content == nil then return nil, content_type, replaces end
  if replaces then fields = request.without(fields, { ["content-type"] = true }) end
  local now = (opts.loop or default_loop).now
  local pool = pool_of(opts)
  loose = loose or pools.new { max_idle = 0 }
  return {
    method = method, url = u, opts = opts, tls = opts.tls, own = own, fields = fields,
    content = content or nil, content_type = content_type,
    expect = wants_continue(opts, own, content), pool = pool, pool_of_bodies = pool or loose, unix = opts.unix,
    decode = opts.decompress ~= false, trace = {}, now = now, start = now(),
    deadline = opts.timeout and now() + opts.timeout or nil,
  }
end

function request.check(opts, on_response, on_raise)
  if not kinds[opts.as] then error("as must be 'raw', 'stream' or 'json', not " .. tostring(opts.as), 3) end
  if opts.async and not (on_response and on_raise) then
    error("async needs the functions on_response and on_raise", 3)
  end
  check_body(opts)
end

return request
