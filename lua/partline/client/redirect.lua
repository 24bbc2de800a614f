--- Where a redirect leads, and what of the request goes there (RFC 9110 15.4).
-- @module partline.client.redirect

local headers_of = require("partline.headers")
local options = require("partline.options")
local request = require("partline.client.request")
local urls = require("partline.url")

local redirect = {}

local followed = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

--- The URL a response sends us to, or nil.
function redirect.target(job, response)
  if not followed[response.status] then return nil end
  local value = headers_of.get(response.headers, "Location")
  if type(value) ~= "string" or value == "" then return nil end
  return urls.resolve(job.url, urls.encode(value, "url"))
end

-- 303 asks for a GET; 301 and 302 do so of a POST, as everybody has read them since the beginning (RFC 9110 15.4).
local function next_method(status, method)
  if status == 303 and method ~= "HEAD" or status <= 302 and method == "POST" then return "GET" end
  return method
end

-- The tls option without what is meant for one host.
local function anonymous(given)
  local out = options.read(given)
  out.certificate, out.key, out.password, out.server_name = nil, nil, nil, nil
  return next(out) and out or nil
end

--- Points the job elsewhere. → the URL | nil, message, code.
function redirect.turn(job, target, status)
  local u, text, code = request.place(tostring(target))
  if not u then return nil, text, code end
  local method = next_method(status, job.method)
  if method ~= job.method then
    job.method, job.content, job.content_type, job.expect, job.plain = method, nil, nil, false, false
    job.fields = request.without(job.fields or {}, request.about_body)
  elseif job.content and not job.content.again then
    return nil, "redirect: the body cannot be sent a second time", "cannot-replay"
  end
  local there = tostring(u)
  if not request.same_origin(u, job.url) then
    job.fields, job.unix = request.without(job.fields or {}, request.credentials), nil
    job.tls = anonymous(job.tls)
  elseif not u.userinfo then
    u = job.url.userinfo and request.place_with(u, "userinfo", job.url.userinfo) or u
  end
  job.url, job.plain = u, job.plain and not u.userinfo
  return there
end

return redirect
