--- An HTTP/1.1 client: blocks when called outside of `partline.loop`, yields inside it; the same code either way.
-- Failures are `nil, message, code`. See doc/client.md.
-- @module partline.client

local coding = require("partline.client.coding")
local core = require("partline.core")
local default_loop = require("partline.loop")
local headers_of = require("partline.headers")
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

-- The error object that iterators raise, too.
local function error_object(text, code)
  local _, object = pcall(core.text.raise, tostring(text), tostring(code))
  return object
end

-- A response is what was read, and says its status as text where it is raised.
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

-- Seconds a server promises to keep it open.
local function promise(response)
  local value = response.headers["Keep-Alive"]
  local seconds = type(value) == "string" and value:match("timeout%s*=%s*(%d+)")
  return seconds and math.max(tonumber(seconds) - 1, 0) or nil
end

local function has_token(value, wanted)
  local list = "," .. tostring(value):lower():gsub("%s", "") .. ","
  return list:find("," .. wanted .. ",", 1, true) ~= nil
end

-- Whether another request may follow, once the body is read.
local function reusable(job, response, about)
  return job.pool ~= false and about.keep_alive and not about.upgrade and response.status ~= 101
    and not has_token(job.own.connection, "close")
end

-- Gives the connection back after a body that was read here, or closes it.
local function release(job, c)
  if c.reusable then job.pool:give(c) else c:close() end
end

local function settle(job, c, response, about)
  c.promised = promise(response)
  c.reusable = reusable(job, response, about)
  c:patient(job.opts.body_timeout)
  local body = response.body
  if body then body:limits { max_all = job.opts.max_body_in_memory } end
end

-- ---- redirects ----

-- Reads what little a redirect says, so that its connection can be used again.
local function drop_body(job, c, response)
  local body = response.body
  if body and (not body:skip(DRAIN) or body:read_some(1) ~= nil or body:status() ~= "ended") then c.reusable = false end
  release(job, c)
end

-- → c, response of the last hop | nil, message, code.
local function follow(job)
  while true do
    local c, response, about = exchange.send(job)
    if not c then return nil, response, about end
    settle(job, c, response, about)
    local target = job.opts.follow_redirects and redirect.target(job, response)
    if not target then return c, response end
    drop_body(job, c, response)
    if #job.trace >= job.opts.max_redirects then return nil, "too many redirects", "too-many-redirects" end
    local there, text, code = redirect.turn(job, target, response.status)
    if not there then return nil, text, code end
    job.trace[#job.trace + 1] = there
  end
end

-- ---- the response ----

local function read_whole(c, response)
  local text, why, code = response.body:read("a")
  if text and response.body:status() ~= "ended" then text, why, code = nil, "body was not read", "unexpected-eof" end
  if not text then
    c:close()
    return nil, why, code
  end
  return text
end

-- Undoes content codings that were asked for by us.
local function decode(job, response)
  if not job.decode or job.own["accept-encoding"] then return end
  local body, decoded = coding.decoded(response.body, headers_of.get(response.headers, "Content-Encoding"))
  if not decoded then return end
  body:limits { max_all = job.opts.max_body_in_memory }
  response.body, response.length = body, nil
end

local function as_stream(job, c, response)
  job.pool_of_bodies:lend(c, response.body)
  decode(job, response)
  return response
end

local function as_text(job, c, response)
  local wire = response.body
  decode(job, response)
  local text, why, code = read_whole(c, response)
  if not text then return nil, why, code end
  if wire:status() ~= "ended" then c.reusable = false end
  release(job, c)
  response.body = text
  if job.opts.as ~= "json" or text == "" then return response end
  response.body, why, code = coding.from_json(text)
  if response.body == nil and why then
    if response.status >= 400 then -- what went wrong matters more than how it is told
      response.body = text
      return response
    end
    return nil, why, code
  end
  return response
end

local function finish(job, c, response)
  response.request_time = math.floor((job.now() - job.start) * 1000 + 0.5)
  response.http_client, response.trace_redirects = c, job.trace
  setmetatable(response, shape_of(getmetatable(response)))
  if response.body then
    if job.opts.as == "stream" then return as_stream(job, c, response) end
    return as_text(job, c, response)
  end
  if not (response.status == 101 or job.method == "CONNECT") then release(job, c) end
  return response
end

local function perform(job)
  local c, response, code = follow(job)
  if not c then return nil, response, code end
  return finish(job, c, response)
end

local function throws(opts, response)
  return opts.throw_errors and response.status >= 400
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
  if type(url) ~= "string" and type(url) ~= "table" then error("URL must be a string", 2) end
  if opts ~= nil and type(opts) ~= "table" then error("options must be a table", 2) end
  local all = options.read(opts, defaults)
  request.check(all, on_response, on_raise)
  local job, text, code = request.new(method:upper(), url, all)
  if all.async then
    return (all.loop or default_loop).spawn(run_async, job, text, code, on_response, on_raise)
  end
  local response
  if job then response, text, code = perform(job) end
  if not response and all.throw_errors then error(error_object(text, code), 0) end
  if not response then return nil, text, code end
  if throws(all, response) then error(response, 0) end
  return response
end

local methods = { "get", "head", "post", "put", "delete", "patch", "options", "trace", "connect" }

for _, name in ipairs(methods) do
  client[name] = function(url, opts, on_response, on_raise)
    return client.request(name, url, opts, on_response, on_raise)
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
