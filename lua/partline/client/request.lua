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

local function port_of(u)
  return u.port or ports[u.scheme]
end

local function host_field(u)
  return u.port and u.port ~= ports[u.scheme] and u.host .. ":" .. u.port or u.host
end

-- A place: a URL with what a request makes of it: `field` (Host), `target`, `number` (the port), `bare` (the
-- host without brackets), and room for what is
-- the same each time. Places are shared and not changed.
local function place(u)
  u.field, u.number, u.bare = host_field(u), port_of(u), bracketless(u.host)
  u.target = (u.path == "" and "/" or u.path) .. (u.query and "?" .. u.query or "")
  u.heads, u.json_heads, u.direct = {}, {}, nil
  return u
end

-- A URL without a scheme is http, as browsers take it ("localhost:8000" has no scheme "localhost").
local function parse(given)
  if type(given) == "table" then given = urls.build(given) end
  if not given:find("^%a[%w+.-]*://") then given = "http://" .. given end
  local u, text, code = urls.parse(given)
  if not u then return nil, text, code end
  u.scheme = u.scheme:lower()
  if not ports[u.scheme] then return fail("unsupported URL scheme: " .. u.scheme, "unsupported-scheme") end
  if not u.host or u.host == "" then return fail("URL without a host", "bad-url") end
  u.host, u.path, u.query, u.fragment = u.host:lower(), tidy(u.path), tidy(u.query), nil
  return place(u)
end

local places, count = {}, 0 -- by URL: programs ask for the same ones again and again; emptied when it is full
local PLACES_MAX, URL_MAX = 256, 512

--- The place of a URL, a string or table. → place | nil, message, code.
function request.place(given)
  if type(given) ~= "string" and type(given) ~= "table" then error("URL must be a string", 4) end
  local u, text, code = parse(given)
  if not u then return nil, text, code end
  if type(given) == "string" and #given <= URL_MAX then
    if count == PLACES_MAX then
      count = 0
      for url in pairs(places) do places[url] = nil end
    end
    places[given], count = u, count + 1
  end
  return u
end

--- The same place with another part.
function request.place_with(u, name, value)
  local out = setmetatable({}, getmetatable(u))
  for key, part in pairs(u) do out[key] = part end
  out[name] = value
  return place(out)
end

local function target_of(u, method, through_proxy)
  if method == "CONNECT" then return u.host .. ":" .. u.number end
  return through_proxy and u.scheme .. "://" .. u.field .. u.target or u.target
end

function request.same_origin(a, b)
  return a.scheme == b.scheme and a.host == b.host and a.number == b.number
end

-- A text that differs where connections must not be shared.
local function signature(t)
  if type(t) ~= "table" then return tostring(t) end
  local out = {}
  for name, value in pairs(t) do out[#out + 1] = options.snake(tostring(name)) .. "=" .. signature(value) end
  table.sort(out)
  return "{" .. table.concat(out, ";") .. "}"
end

local function new_route(job, proxy)
  local u, opts = job.url, job.opts
  local tls = u.scheme == "https" and (job.tls or {})
  local route = { host = u.host, port = u.number, unix = job.unix, tls = tls, proxy = proxy }
  route.key = table.concat({
    u.scheme, u.host, route.port, tls and signature(job.tls) or "", signature(proxy), job.unix or "",
    opts.loop and tostring(opts.loop) or "",
  }, " ")
  return route
end

--- Where the connection goes, and the `key` under which it is kept. → route | nil, message, code.
function request.route(job)
  local u, opts = job.url, job.opts
  local proxy, text, code = opts.proxy, nil, nil
  if job.unix then proxy = false end
  if proxy ~= false then proxy, text, code = proxies.choose(proxy, u.scheme, u.bare, u.number) end
  if proxy == nil then return nil, text, code end
  local credentials = proxy and u.scheme == "https" and job.own["proxy-authorization"]
  if credentials then proxy = { host = proxy.host, port = proxy.port, authorization = credentials } end
  if proxy or job.unix or job.tls or opts.loop then return new_route(job, proxy) end
  u.direct = u.direct or new_route(job, false)
  return u.direct
end

-- ---- the request's fields ----

local nothing = {}

-- The program's fields by lower-case name, and all of them as a list of { name, value } in a fixed order.
local function fields_of(given)
  if given == nil then return nothing, nothing end
  local by_name, list = {}, {}
  local function add(name, value)
    local key = tostring(name):lower()
    if by_name[key] == nil then by_name[key] = value end
    list[#list + 1] = { name, value, key }
  end
  if type(given[1]) == "table" then
    for _, pair in ipairs(given) do add(pair[1], pair[2]) end
  else
    for name, value in headers_of.each(given) do add(name, value) end
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
    { "Accept-Encoding", job.opts.decompress ~= false and job.own.range == nil and coding.accepted() },
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
  for _, field in ipairs(job.fields or nothing) do own[field[3]] = field[2] end
  local out = { { "Host", own.host or job.url.field } }
  for _, field in ipairs(our_fields(job, route)) do
    if field[2] and own[field[1]:lower()] == nil then out[#out + 1] = field end
  end
  for _, field in ipairs(job.fields or nothing) do
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
  if opts.body == nil and opts.multipart == nil and opts.form == nil then return end
  local n = (opts.body ~= nil and 1 or 0) + (opts.multipart and 1 or 0) + (opts.form and 1 or 0)
  if n > 1 then error("only one of body, multipart and form can be sent", 4) end
  if opts.as == "json" or not is_plain_table(opts.body) then return end
  local own = fields_of(opts.headers)
  if not tostring(own["content-type"]):lower():find("json", 1, true) then
    error("a table as body needs as = 'json'", 4)
  end
end

local function prepare(job, route)
  local content = job.content
  return writing.prepare_request {
    method = job.method, target = target_of(job.url, job.method, route.proxy and not route.tls),
    headers = request_fields(job, route), body = content and (content.built or content.open()) or nil,
    length = content and content.length or nil,
  }
end

--- The checked head and the body of a job, for `partline.writing`. → ready | nil, message, code.
function request.prepare(job, route)
  if not job.plain or route ~= job.url.direct then return prepare(job, route) end
  local heads = job.opts.as == "json" and job.url.json_heads or job.url.heads
  local known = heads[job.method]
  if known then return known end
  local ready, text, code = prepare(job, route)
  heads[job.method] = ready
  return ready, text, code
end

-- ---- the job ----

local shared = pools.new() -- the pool of everybody who brings none

-- The URL with the query_params behind its own.
local function with_query(u, params)
  local more = type(params) == "string" and params or urls.build_query(params)
  if more == "" then return u end
  return request.place_with(u, "query", u.query and u.query ~= "" and u.query .. "&" .. more or more)
end

local function wants_continue(opts, own, content)
  if own.expect then return tostring(own.expect):lower() == "100-continue" end
  if opts.expect ~= nil then return opts.expect and true or false end
  return content.length ~= nil and content.length > opts.expect_over
end

--- Everything that is decided before the first byte. → job | nil, message, code.
function request.new(method, given_url, opts)
  local u, text, code = places[given_url], nil, nil
  if not u then u, text, code = request.place(given_url) end
  if not u then return nil, text, code end
  if opts.query_params ~= nil then u = with_query(u, opts.query_params) end
  local own, fields, content, content_type, replaces = nothing, nil, false, nil, nil
  if opts.headers ~= nil then own, fields = fields_of(opts.headers) end
  if opts.special then content, content_type, replaces = content_of(opts, own) end
  if content == nil then return nil, content_type, replaces end
  local pool = opts.pool
  if pool == nil then pool = shared end
  local job = { -- eight fields, since with one more it takes twice as much, and few requests need one
    method = method, url = u, opts = opts, own = own, pool = pool, trace = {},
    start = (opts.loop or default_loop).now(),
    -- the head depends on nothing but the method and the URL
    plain = not (fields or content or u.userinfo) and opts.pool ~= false and opts.decompress == nil,
  }
  if fields then job.fields = replaces and request.without(fields, { ["content-type"] = true }) or fields end
  if opts.timeout then job.deadline = job.start + opts.timeout end
  if opts.tls then job.tls = opts.tls end
  if opts.unix then job.unix = opts.unix end
  if not content then return job end
  job.content, job.content_type = content, content_type
  job.expect = wants_continue(opts, own, content)
  return job
end

function request.check(opts, on_response, on_raise)
  if not kinds[opts.as] then error("as must be 'raw', 'stream' or 'json', not " .. tostring(opts.as), 3) end
  if opts.async and not (on_response and on_raise) then
    error("async needs the functions on_response and on_raise", 3)
  end
  check_body(opts)
end

return request
