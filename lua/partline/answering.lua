--- From a handler to a response, whatever the handler does; and the log. Functions take who serves as `self`: a table
-- with `handler`, `opts` (`on_error`, `log`) and `counts.errors`.
-- @module partline.answering

local core = require("partline.core")
local writing = require("partline.writing")

local errors = core.text.errors()
local is_reader = core.reader.is

local answering = {}

-- ---- answers of our own ----

--- A response of our own in plain text: `why`, or what the status is called.
---@param status integer
---@param why string?
---@return table
local function plain(status, why)
  if type(why) ~= "string" then why = writing.reason(status) end
  return {
    status = status, headers = { ["Content-Type"] = "text/plain; charset=utf-8" }, body = why .. "\n",
  }
end

--- Counts an error by its code.
function answering.count(self, code)
  local counts = self.counts.errors
  counts[code] = (counts[code] or 0) + 1
end

-- ---- the log ----

local log_months = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }
local stamp = { at = -1, text = "" } -- of this second

-- The common log format's time, in UTC.
local function log_time()
  local time = os.time()
  if time ~= stamp.at then
    local t = os.date("!*t", time)
    stamp.at = time
    stamp.text = ("%02d/%s/%d:%02d:%02d:%02d +0000"):format(t.day, log_months[t.month], t.year, t.hour, t.min, t.sec)
  end
  return stamp.text
end

--- A line of the common log format. `request` is nil where the head was refused; bytes: of the body, as it went.
---@param peer string
---@param request partline.Request?
---@param status integer
---@param bytes integer
---@return string
local function log_line(peer, request, status, bytes)
  local line = request and ("%s %s HTTP/1.%d"):format(request.method, request.target, request.protocol_version.minor)
  line = (line or "-"):gsub('["\\\0-\31\127-\255]', function(c) return ("\\x%02x"):format(c:byte()) end)
  return ('%s - - [%s] "%s" %d %d'):format(peer, log_time(), line, status, bytes)
end

local function stderr(text, why)
  io.stderr:write("partline.server: ", text, tostring(why), "\n")
end

--- Writes that line to `opts.log`, a file handle or a function.
function answering.log(self, peer, request, status, bytes)
  local sink, line = self.opts.log, log_line(peer, request, status, bytes)
  if type(sink) == "function" then
    local ok, why = pcall(sink, line, request, status, bytes)
    if not ok then stderr("log failed: ", why) end
  else
    sink:write(line, "\n")
  end
end

-- ---- faults ----

--- What xpcall makes of an error: `value` as on_error gets it, and the traceback.
local function failure(err)
  if type(err) == "table" and math.tointeger(err.status) and err.status < 500 then return { value = err } end
  local text = type(err) == "table" and type(err.message) == "string" and err.message or tostring(err)
  local trace = debug.traceback(text, 2)
  return { value = type(err) == "table" and err or trace, trace = trace }
end

--- Tells `opts.on_error`, or stderr.
local function report(self, value, request, trace)
  local on_error = self.opts.on_error
  if not on_error then return stderr("", trace or value) end
  local ok, why = pcall(on_error, value, request, trace)
  if not ok then stderr("on_error failed: ", why) end
end

--- The code of a body that failed by its peer's fault: then that is why its handler failed too. And its status.
local function body_fault(request)
  local body = request and request.body
  if not body then return nil end
  local _, _, code = body:status()
  local known = code and errors[code]
  if code == "read-failed" then return code, 400 end -- reset: nobody will read the answer
  if known and known.status < 500 then return code, known.status end
  return nil
end

local function status_of(err)
  local status = type(err) == "table" and math.tointeger(err.status)
  return status and status >= 400 and status < 600 and status or 500
end

--- The response to a request whose handler failed with a `failure`; reports what the peer is not to blame for.
local function answer_to(self, failed, request)
  local err = failed.value
  local code, status = body_fault(request)
  if code then
    answering.count(self, code)
    return plain(status, errors[code].text)
  end
  local known = type(err) == "table" and errors[err.code]
  if known then answering.count(self, err.code) end
  status = status_of(err)
  if status < 500 then return plain(status, known and known.text or err.message) end
  report(self, err, request, failed.trace)
  return plain(status)
end

-- ---- the handler ----

local function normalize(result)
  local kind = type(result)
  if kind == "table" then return result end
  if kind == "string" then
    return { status = 200, headers = { ["Content-Type"] = "text/plain; charset=utf-8" }, body = result }
  end
  if is_reader(result) then return { status = 200, body = result } end
  return nil
end

--- What becomes of what a handler returned, or of its `failure`. → a response, as a table.
---@param ok boolean whether it returned
---@return table
function answering.settle(self, request, ok, result)
  if not ok then -- without memory there is no `failure`
    return answer_to(self, type(result) == "table" and result or { value = result }, request)
  end
  local response = normalize(result)
  if response then return response end
  report(self, "the handler returned a " .. type(result) .. ", not a response", request)
  return plain(500)
end

--- Calls `self.handler`. → its response, as a table, or one that tells of its failure.
---@return table
function answering.call(self, request)
  return answering.settle(self, request, xpcall(self.handler, failure, request))
end

answering.plain, answering.log_line, answering.failure, answering.report = plain, log_line, failure, report
answering.body_fault, answering.answer_to = body_fault, answer_to

return answering
