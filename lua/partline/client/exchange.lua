--- One request and its response on a connection: sending, waiting for the head, and once more when a kept connection
-- turns out to be dead.
-- @module partline.client.exchange

local dial = require("partline.client.dial")
local message = require("partline.message")
local request = require("partline.client.request")
local writing = require("partline.writing")

local exchange = {}

local EARLY_ANSWER = 2 -- seconds to look for a response when the server has stopped reading

-- ---- one exchange on one connection ----

local usual = message.parser() -- the parser of all who set no limits

local function parser_of(opts)
  return opts.limited and message.parser(opts) or usual
end

local function is_final(status)
  return status >= 200 or status == 101
end

-- The head of the final response, and what else it says; nothing of the body is read, for which the connection keeps
-- the limits. → response, said | nil, message, code.
local function read_head(c, job, on_interim)
  local parser = parser_of(job.opts)
  while true do
    local response, said, code = parser.head:read(c.reader, "response", job.method, true)
    if not response then return nil, said, code end
    c.heard, c.limits = true, parser.limits
    if is_final(response.status) then return response, said end
    if on_interim then on_interim(response) end
  end
end

local function wait_for_head(c, seconds)
  c:patient(nil, c.view.now() + seconds)
end

-- The server may have answered and stopped reading: what went wrong with sending matters only when it has not.
local function sending_failed(c, job, text, code)
  local broken = not c.writer:write("")
  if not broken then return nil, text, code end -- the body's source failed
  wait_for_head(c, EARLY_ANSWER)
  local response, said = read_head(c, job)
  if not response then return nil, text, code end
  c.spent = true
  return response, said
end

-- What is small goes out and comes back in one call of C, maybe with its body: the third value.
local function exchange_small(c, job, ready)
  local opts = job.opts
  local parser = opts.limited and parser_of(opts) or usual
  local most = opts.as ~= "stream" and opts.max_body_in_memory or nil
  local blocks = not c.view.running() -- there is nobody else
  local response, said, text = parser.head:ask(c.reader, c.writer, ready.head, ready.body, job.method,
    opts.head_timeout, most, blocks)
  if response then
    local status = response.status
    c.limits = parser.limits
    if status >= 200 or status == 101 then return response, said, text end
    c.heard = true
    return read_head(c, job)
  end
  local _, _, broken = c.writer:status()
  if broken then return sending_failed(c, job, said, text) end
  return nil, said, text
end

local function exchange_plain(c, job, ready)
  local ok, text, code = writing.write_prepared(c.writer, ready)
  if not ok then return sending_failed(c, job, text, code) end
  wait_for_head(c, job.opts.head_timeout)
  return read_head(c, job)
end

-- RFC 9110 10.1.1: the body waits for 100 Continue, but not for long; a final answer spares it.
local function exchange_expecting(c, job, ready)
  local opts = job.opts
  local sent, failed = false, nil
  local function send_body()
    if sent then return end
    sent = true
    local ok, text, code = writing.write_prepared_body(c.writer, ready)
    if not ok then failed = { text, code } end
    wait_for_head(c, opts.head_timeout)
  end
  local ok, text, code = c.writer:write(ready.head)
  if ok then ok, text, code = c.writer:flush() end
  if not ok then return sending_failed(c, job, text, code) end
  wait_for_head(c, opts.continue_timeout)
  local _, _, why = c.reader:peek(1)
  if why == "timeout" then send_body() end
  wait_for_head(c, opts.head_timeout)
  local response, said
  if failed and c.writer:write("") then return nil, failed[1], failed[2] end -- the body's source failed
  response, said, code = read_head(c, job, function(interim)
    if interim.status == 100 then send_body() end
  end)
  if failed and c.writer:write("") then return nil, failed[1], failed[2] end
  if not response then return nil, failed and failed[1] or said, failed and failed[2] or code end
  c.spent, c.spared = not sent or failed ~= nil, not sent
  return response, said
end

-- A body may be a function of the program's, and raise.
local function exchange_guarded(c, job, ready)
  local ok, response, said, code = pcall(job.expect and exchange_expecting or exchange_plain, c, job, ready)
  if ok then return response, said, code end
  c:close()
  error(response, 0)
end

-- ---- connections ----

-- A kept connection, or nil. Any of them may die on its way back to us, so what can be sent only once is not entrusted
-- to one that was not asked for.
local function kept(job, route)
  local opts, pool, content = job.opts, job.pool, job.content
  local once = content and not content.again
  if not pool or once and not opts.http_client then return nil end
  return pool:take(route.key, opts.http_client, once or opts.retry == false)
end

-- → c | nil, message, code.
local function dialled(job, route)
  local c, text, code = dial.open(route, job.opts, job.deadline)
  if not c then return nil, text, code end
  c.key = route.key
  return c
end

-- Once more on a new connection when an old one turned out to be dead: nothing came, and the body is still there.
local function may_repeat(c, job, code)
  local silent = code ~= "timeout" and not c.heard and c.reader:at_hand() == 0
  return silent and job.opts.retry ~= false and (not job.content or job.content.again)
end

-- How it goes over this connection. Small bodies are strings, which do not raise.
local function exchange_of(c, job, ready)
  if ready.small and c.direct and not job.expect then return exchange_small end
  return job.content and exchange_guarded or exchange_plain
end

--- Sends the request of a job. → connection, response, what else its head says (`framing`, `keep_alive`, `upgrade`,
-- `coded`; not to be changed), and its body when that has come along and is wanted whole | nil, message, code. The
-- connection has the `limits` of a body that is not read, and is `spent` when it cannot carry another request whatever
-- the head says. May yield.
function exchange.send(job)
  local route, text, code = request.route(job)
  if not route then return nil, text, code end
  for attempt = 1, 2 do
    local ready, c, reused, response, said, more
    ready, text, code = request.prepare(job, route)
    if not ready then return nil, text, code end
    reused = attempt == 1 and kept(job, route)
    c = reused
    if not c then c, text, code = dialled(job, route) end
    if not c then return nil, text, code end
    c.view.deadline, c.heard = job.deadline, false
    response, said, more = exchange_of(c, job, ready)(c, job, ready)
    if response and (response.status ~= 417 or not c.spared) then return c, response, said, more end
    local again = not response and reused and may_repeat(c, job, more)
    c:close()
    if response then -- 417: the server does not know the expectation; even a body that can be read once is still there
      job.expect = false
      return exchange.send(job)
    end
    if not again then return nil, said or "connection closed before a response", more or "unexpected-eof" end
  end
end

return exchange
