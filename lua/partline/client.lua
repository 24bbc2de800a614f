--- An HTTP/1.1 client: blocks when called outside of `partline.loop`, yields inside it; the same code either way.
-- Failures are `nil, message, code`. See doc/client.md.
-- @module partline.client

local coding = require("partline.client.coding")
local core = require("partline.core")
local default_loop = require("partline.loop")
local message = require("partline.message")
local options = require("partline.options")
local exchange = require("partline.client.exchange")
local pools = require("partline.client.pool")
local redirect = require("partline.client.redirect")
local request = require("partline.client.request")

local client = {}

local DRAIN = 64 * 1024     -- bytes of a redirect's body that are read to keep its connection

local defaults = {
  as = "raw", follow_redirects = true, max_redirects = 20, throw_errors = false,
  connect_timeout = 10,     -- seconds: connection, proxy and TLS together
  head_timeout = 60,        -- from the request's end to the head of its response
  body_timeout = 30,        -- without progress of the response's body
  write_timeout = 30,       -- without progress of the request
  expect_over = 1024 * 1024, -- bytes of a body that is announced with Expect: 100-continue
  continue_timeout = 1,     -- seconds its answer is waited for
  max_body_in_memory = 64 * 1024 * 1024, -- as "raw" and "json", and read("a") of a stream
}

local ours = {} -- names that need no look at their spelling
for name in ("as async body form headers http_client multipart pool proxy query_params timeout tls"):gmatch("%S+") do
  ours[name] = name
end
for name in pairs(defaults) do ours[name] = name end

local special = { as = true, async = true, body = true, form = true, multipart = true }

local limits = {
  max_head = true, max_fields = true, max_chunk_line = true, max_chunk_ext = true, max_trailer = true,
}

-- As options.read with the defaults, which are written out: every request does it. `limited`: it limits heads;
-- `special`: it has to be checked.
local function read_options(given)
  local d, limited, checked = defaults, false, false
  local all = {
    as = d.as, follow_redirects = d.follow_redirects, max_redirects = d.max_redirects, throw_errors = d.throw_errors,
    connect_timeout = d.connect_timeout, head_timeout = d.head_timeout, body_timeout = d.body_timeout,
    write_timeout = d.write_timeout, expect_over = d.expect_over, continue_timeout = d.continue_timeout,
    max_body_in_memory = d.max_body_in_memory, limited = false, special = false,
  }
  for name, value in next, given do
    local known = ours[name]
    if not known then
      known = type(name) == "string" and options.snake(name) or name
      limited = limited or limits[known]
    end
    all[known] = value
    checked = checked or special[known]
  end
  all.limited, all.special = limited, checked -- whatever the program calls so
  return all
end

-- What was given and read last: programs give the same options again and again.
local last = setmetatable({ given = nil, all = nil, count = 0 }, { __mode = "v" })

-- As read_options, which need not read again what is the same. Nothing that holds a body or fields is kept.
local function options_of(given)
  local before, all, n = last.given, last.all, 0
  if before and all then
    for name, value in next, given do
      if before[name] ~= value then n = -1 break end
      n = n + 1
    end
    if n == last.count then return all end
  end
  all, before, n = read_options(given), {}, 0
  for name, value in next, given do before[name], n = value, ours[name] and n + 1 or -math.huge end
  if n >= 0 and not all.special and all.headers == nil then last.given, last.all, last.count = before, all, n end
  return all
end

-- The error object that iterators raise, too.
local function error_object(text, code)
  local _, object = pcall(core.text.raise, tostring(text), tostring(code))
  return object
end

local shapes = setmetatable({}, { __mode = "k" }) -- the metatable of what was read → that of a response

local function shape_of(read)
  local shape = shapes[read]
  if shape then return shape end
  shape = { __tostring = function(self) return ("%d %s"):format(self.status, self.reason_phrase) end }
  for name, value in pairs(read) do shape[name] = shape[name] or value end
  shapes[read] = shape
  return shape
end

-- ---- what happens to the connection ----

-- Seconds a server promises to keep it open, or false.
local function promise(response)
  local value = response.headers["Keep-Alive"]
  local seconds = type(value) == "string" and value:match("timeout%s*=%s*(%d+)")
  return seconds and math.max(tonumber(seconds) - 1, 0) or false
end

local function has_token(value, wanted)
  local list = "," .. tostring(value):lower():gsub("%s", "") .. ","
  return list:find("," .. wanted .. ",", 1, true) ~= nil
end

-- Gives the connection back after a body that was read here, or closes it. `time`: when nobody has waited since.
local function release(job, c, time)
  if c.reusable then job.pool:give(c, time) else c:close() end
end

-- Whether another request may follow, once the body is read; and how long that may wait.
local function settle(job, c, response, said, text)
  if c.promised == nil then c.promised = promise(response) end
  local own = job.own.connection
  c.reusable = said.keep_alive and not (said.upgrade or c.spent) and job.pool ~= false and response.status ~= 101
    and (own == nil or not has_token(own, "close"))
  if not text and said.framing ~= "none" then c:patient(job.opts.body_timeout) end
end

-- The body as a Reader; nil where there is none.
local function open_body(job, c, response, said)
  local body = message.body_reader(c.reader, said.framing, response.length, c.limits, true)
  response.body = body
  return body and body:limits { max_all = job.opts.max_body_in_memory }
end

-- ---- redirects ----

-- Reads what little a redirect says, so that its connection can be used again; `text` if it has come along.
local function drop_body(job, c, response, said, text)
  local body = not text and open_body(job, c, response, said)
  if body and (not body:skip(DRAIN) or body:read_some(1) ~= nil or body:status() ~= "ended") then c.reusable = false end
  release(job, c)
end

-- ---- the response ----

local function content_coding(job, response, said)
  if not said.coded or job.opts.decompress == false or job.own["accept-encoding"] ~= nil then return nil end
  if not coding.accepted() then return nil end
  return response.headers["Content-Encoding"]
end

-- The body without the content codings that we asked for.
local function decoded_body(job, response, coded)
  local body, decoded = coding.decoded(response.body, coded)
  if not decoded then return body end
  response.body, response.length = body, nil
  return body:limits { max_all = job.opts.max_body_in_memory }
end

local loose -- lends connections that are kept nowhere

local function as_stream(job, c, response, said)
  if response.length == 0 then -- nobody need read it to its end
    response.body = core.reader.string("")
    release(job, c)
    return response
  end
  local body = open_body(job, c, response, said)
  local pool = job.pool
  if not pool then
    loose = loose or pools.new { max_idle = 0 }
    pool = loose
  end
  pool:lend(c, body)
  decoded_body(job, response, content_coding(job, response, said))
  return response
end

-- A body of known length, straight from the connection.
local function read_length(job, c, n)
  if n > job.opts.max_body_in_memory then return nil, "body over the limit", "body-too-large" end
  if n == 0 then return "" end
  local text, why, code = c.reader:read(n)
  if text and #text < n or not text and not why then return nil, "body ended too early", "unexpected-eof" end
  return text, why, code
end

local function read_whole(job, c, response, said)
  local coded = content_coding(job, response, said)
  if said.framing == "length" and not coded then return read_length(job, c, response.length) end
  local wire = open_body(job, c, response, said)
  local text, why, code = decoded_body(job, response, coded):read("a")
  if not text then return nil, why, code end
  if wire:status() ~= "ended" then return nil, "body was not read", "unexpected-eof" end
  return text
end

local function as_json(response, text)
  local value, why, code = coding.from_json(text)
  if value == nil and why then
    if response.status < 300 then return nil, why, code end
    value = text -- what went wrong, or where to go, matters more than how it is told
  end
  response.body = value
  return response
end

local function finish(job, c, response, said, text)
  local opts = job.opts
  local time = (opts.loop or default_loop).now()
  response.request_time = ((time - job.start) * 1000 + 0.5) // 1 | 0
  response.http_client, response.trace_redirects = c, job.trace
  if said.framing == "none" then
    if not (response.status == 101 or job.method == "CONNECT") then release(job, c) end
    return response
  end
  if opts.as == "stream" then return as_stream(job, c, response, said) end
  if not text then
    local why, code
    time = nil
    text, why, code = read_whole(job, c, response, said)
    if not text then
      c:close()
      return nil, why, code
    end
  end
  release(job, c, time)
  if opts.as == "json" and text ~= "" then return as_json(response, text) end
  response.body = text
  return response
end

-- Follows redirects. → response | nil, message, code.
local function perform(job)
  while true do
    local c, response, said, text = exchange.send(job)
    if not c then return nil, response, said end
    settle(job, c, response, said, text)
    local target = response.status >= 300 and job.opts.follow_redirects and redirect.target(job, response)
    if not target then return finish(job, c, response, said, text) end
    drop_body(job, c, response, said, text)
    if #job.trace >= job.opts.max_redirects then return nil, "too many redirects", "too-many-redirects" end
    local there, why, code = redirect.turn(job, target, response.status)
    if not there then return nil, why, code end
    job.trace[#job.trace + 1] = there
  end
end

-- Whether the response is to be raised; then it says its status as text.
local function throws(opts, response)
  if response.status < 400 or not opts.throw_errors then return false end
  setmetatable(response, shape_of(getmetatable(response)))
  return true
end

-- Runs as a task; whatever happens, one of the two functions is called.
local function run_async(job, text, code, on_response, on_raise)
  local ok, response = job ~= nil, nil
  if job then ok, response, text, code = pcall(perform, job) end
  if job and not ok then return on_raise(response) end
  if not response then return on_raise(error_object(text, code)) end
  if throws(job.opts, response) then return on_raise(response) end
  return on_response(response)
end

local no_options = read_options {}

local function run(method, url, opts, on_response, on_raise)
  if opts ~= nil and type(opts) ~= "table" then error("options must be a table", 2) end
  local all = opts and options_of(opts) or no_options
  if all.special then request.check(all, on_response, on_raise) end
  local job, text, code = request.new(method, url, all)
  if all.async then
    return (all.loop or default_loop).spawn(run_async, job, text, code, on_response, on_raise)
  end
  local response
  if job then response, text, code = perform(job) end
  if not response then
    if all.throw_errors then error(error_object(text, code), 0) end
    return nil, text, code
  end
  if all.throw_errors and throws(all, response) then error(response, 0) end
  return response
end

--- Makes a request; doc/client.md has the options and the fields of the response. With `async` it returns a task of the
-- loop at once and calls `on_response(response)` or `on_raise(error)` from it.
---@param method string
---@param url string|table
---@param opts table?
---@param on_response fun(response: partline.ClientResponse)?
---@param on_raise fun(err: any)?
---@return partline.ClientResponse|table|nil
---@return string? message
---@return string? code
function client.request(method, url, opts, on_response, on_raise)
  if type(method) ~= "string" then error("method must be a string", 2) end
  return run(method:upper(), url, opts, on_response, on_raise)
end

local methods = { "get", "head", "post", "put", "delete", "patch", "options", "trace", "connect" }

for _, name in ipairs(methods) do
  local method = name:upper()
  client[name] = function(url, opts, on_response, on_raise)
    return run(method, url, opts, on_response, on_raise)
  end
end

--- A pool of its own, for the `pool` option: `max_idle`, `max_idle_per_host`, `idle_timeout`; `close()`, `stats()`.
---@param opts table?
---@return partline.Pool
function client.pool(opts)
  return pools.new(opts)
end

--- The same functions with options of their own: `client.new { timeout = 5, headers = … }`.
---@param opts table?
---@return table
function client.new(opts)
  local base, own = options.read(opts), {}
  function own.request(method, url, more, on_response, on_raise)
    return client.request(method, url, options.read(more, base), on_response, on_raise)
  end
  for _, name in ipairs(methods) do
    own[name] = function(url, more, on_response, on_raise)
      return own.request(name, url, more, on_response, on_raise)
    end
  end
  return own
end

return client
