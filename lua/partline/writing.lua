--- Heads and bodies on their way out, as strict as the readers: what would break the framing is refused before a
-- byte is sent (RFC 9112 2 to 7). `partline.message` gives its functions to programs.
-- @module partline.writing

local core = require("partline.core")
local text = core.text
local date_line = text.date_line
local class = core.reader

local writing = {}

local is_token, is_value, is_target = text.is_token, text.is_value, text.is_target
local concat, format, type, tostring = table.concat, string.format, type, tostring

-- Reason phrases of RFC 9110 15 and its registry.
local reasons = {
  [100] = "Continue", [101] = "Switching Protocols", [102] = "Processing", [103] = "Early Hints",
  [200] = "OK", [201] = "Created", [202] = "Accepted", [203] = "Non-Authoritative Information",
  [204] = "No Content", [205] = "Reset Content", [206] = "Partial Content", [207] = "Multi-Status",
  [208] = "Already Reported", [226] = "IM Used",
  [300] = "Multiple Choices", [301] = "Moved Permanently", [302] = "Found", [303] = "See Other",
  [304] = "Not Modified", [305] = "Use Proxy", [307] = "Temporary Redirect", [308] = "Permanent Redirect",
  [400] = "Bad Request", [401] = "Unauthorized", [402] = "Payment Required", [403] = "Forbidden",
  [404] = "Not Found", [405] = "Method Not Allowed", [406] = "Not Acceptable",
  [407] = "Proxy Authentication Required", [408] = "Request Timeout", [409] = "Conflict", [410] = "Gone",
  [411] = "Length Required", [412] = "Precondition Failed", [413] = "Content Too Large", [414] = "URI Too Long",
  [415] = "Unsupported Media Type", [416] = "Range Not Satisfiable", [417] = "Expectation Failed",
  [421] = "Misdirected Request", [422] = "Unprocessable Content", [423] = "Locked", [424] = "Failed Dependency",
  [425] = "Too Early", [426] = "Upgrade Required", [428] = "Precondition Required", [429] = "Too Many Requests",
  [431] = "Request Header Fields Too Large", [451] = "Unavailable For Legal Reasons",
  [500] = "Internal Server Error", [501] = "Not Implemented", [502] = "Bad Gateway", [503] = "Service Unavailable",
  [504] = "Gateway Timeout", [505] = "HTTP Version Not Supported", [506] = "Variant Also Negotiates",
  [507] = "Insufficient Storage", [508] = "Loop Detected", [510] = "Not Extended",
  [511] = "Network Authentication Required",
}

--- The standard reason phrase of a status, or the empty string.
---@param status integer
---@return string
function writing.reason(status)
  return reasons[status] or ""
end

local SMALL = 64 * 1024 -- bytes of a body that may be sent along with its head

local function refuse(code, message)
  return nil, message, code
end

--- Status lines by status, with their standard phrase, as far as they were asked for.
local status_lines = {}
writing.status_lines = status_lines

local function status_line(status, phrase)
  if phrase == nil then
    local line = status_lines[status]
    if line then return line end
  end
  if math.type(status) ~= "integer" or status < 100 or status > 999 then
    return refuse("invalid-header-value", "status must be an integer from 100 to 999")
  end
  if not is_value(phrase or "") then return refuse("invalid-header-value", "reason phrase must be one line") end
  local line = format("HTTP/1.1 %d %s\r\n", status, phrase or writing.reason(status))
  if phrase == nil then status_lines[status] = line end
  return line
end

-- One field line, appended.
local function add_field(out, name, value)
  local kind = type(value)
  if kind == "number" or kind == "boolean" then
    value = tostring(value)
  elseif kind ~= "string" then
    return refuse("invalid-header-value", "value of " .. tostring(name) .. " must be a string, not a " .. kind)
  end
  if type(name) ~= "string" or not is_token(name) then
    return refuse("invalid-header-value", "field name is not a token: " .. format("%q", tostring(name)))
  end
  if not is_value(value) then
    return refuse("invalid-header-value", "value of " .. name .. " must be one line without control characters")
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = name, ": ", value, "\r\n"
  return true
end

-- The fields that decide the framing, found while the others are appended.
local framing_fields = {
  ["content-length"] = "length", ["transfer-encoding"] = "coding", ["connection"] = "connection", ["date"] = "date",
  ["content-type"] = "type",
}

local NONE = {} -- found where there were none

local function note(found, name, value)
  local key = type(name) == "string" and framing_fields[name:lower()]
  if key then found[key] = found[key] and found[key] .. ", " .. tostring(value) or tostring(value) end
  return key
end

local function add_values(out, name, value)
  if type(value) ~= "table" then return add_field(out, name, value) end
  for _, one in ipairs(value) do
    local ok, message, code = add_field(out, name, one)
    if not ok then return nil, message, code end
  end
  return true
end

-- All fields but Content-Length and Transfer-Encoding, which the body decides. `fields`: name → value, or a list of
-- { name, value }.
local function add_fields(out, fields)
  local found = {}
  for index, field in pairs(fields or {}) do
    local name, value = index, field
    if type(index) == "number" and type(field) == "table" then name, value = field[1], field[2] end
    local key = note(found, name, value)
    if key ~= "length" and key ~= "coding" then
      local ok, message, code = add_values(out, name, value)
      if not ok then return nil, message, code end
    end
  end
  return found
end

-- Content-Length as the program gave it: a number, nil for none, false when it is no length.
local function given_length(found)
  if not found.length then return nil end
  local n = found.length:match("^%d+$") and math.tointeger(tonumber(found.length))
  return n or false
end

-- Whatever may be a body → string, or Reader, or nil for none; and its length when known.
local function body_of(body)
  if body == nil then return nil, 0 end
  local kind = type(body)
  if kind == "string" then return body, #body end
  if kind == "number" then return body_of(tostring(body)) end
  if class.is(body) then return body, body:length() end
  if kind == "table" and body.write_to then return body, body.length end -- what multipart.build gives
  if io.type(body) == "file" then
    local reader = class.file(body, -1)
    return reader, reader:length()
  end
  if kind == "function" then return class["function"](body), nil end
  return false
end

-- ---- bodies ----

local function write_chunk(writer, piece)
  if piece == "" then return writer end -- an empty chunk would end the body
  return writer:write(text.chunk_line(#piece), piece, "\r\n")
end

-- The fields after a chunked body: none that others have acted on already (RFC 9110 6.5.1).
local function trailer_section(trailers)
  if type(trailers) == "function" then trailers = trailers() end
  local out = {}
  for index, field in pairs(trailers or {}) do
    local name, value = index, field
    if type(index) == "number" and type(field) == "table" then name, value = field[1], field[2] end
    if type(name) == "string" and not text.is_trailer(name) then
      return refuse("invalid-header-value", "field cannot be a trailer: " .. name)
    end
    local ok, message, code = add_values(out, name, value)
    if not ok then return nil, message, code end
  end
  return concat(out)
end

local function end_chunks(writer, trailers)
  if not trailers then return writer:write("0\r\n\r\n") end
  local section, message, code = trailer_section(trailers)
  if not section then return nil, message, code end
  return writer:write("0\r\n", section, "\r\n")
end

-- All that the Reader gives, each piece by `put`. Pieces leave as they come: a slow source is seen at the other end.
local function write_pieces(writer, reader, put)
  while true do
    local piece, message, code = reader:read_some()
    if not piece then
      if message then return nil, message, code end
      return writer
    end
    local ok
    ok, message, code = put(writer, piece)
    if ok then ok, message, code = writer:flush() end
    if not ok then return nil, message, code end
  end
end

local function write_length(writer, reader, length)
  local moved, message, code = reader:copy(writer, length)
  if not moved then return nil, message, code end
  if moved < length then return nil, "body is shorter than its Content-Length", "unexpected-eof" end
  return writer
end

-- Sends what is left of a body after the head.
local function write_body(writer, body, length, chunked, trailers)
  if type(body) == "table" then
    local whole = length == nil or length == body.length -- write_to counts nothing
    if whole and not chunked then return body.write_to(writer) end
    body = body.again and body.again() or body.reader
  end
  if type(body) == "string" then
    if not chunked then return writer:write(body) end
    local ok, message, code = write_chunk(writer, body)
    if not ok then return nil, message, code end
    return end_chunks(writer, trailers)
  end
  if body and length then return write_length(writer, body, length) end
  if body then
    local ok, message, code = write_pieces(writer, body, chunked and write_chunk or writer.write)
    if not ok then return nil, message, code end
  end
  if chunked then return end_chunks(writer, trailers) end
  return writer
end

-- ---- requests ----

-- The request line, or nil, message, code.
local function request_line(request)
  local method = request.method or "GET"
  local target = request.target or request.path and request.path .. (request.query and "?" .. request.query or "")
  if type(method) ~= "string" or not is_token(method) then
    return refuse("invalid-request-line", "method is not a token")
  end
  if type(target) ~= "string" or not is_target(target) then
    return refuse("invalid-request-line", "request target is empty or holds white space or control characters")
  end
  return method .. " " .. target .. " HTTP/1.1\r\n"
end

-- Methods whose missing body is told by a length (RFC 9110 8.6).
local expects_body = { POST = true, PUT = true, PATCH = true }

-- The length the head tells (nil: chunked) and its field line, or false, message, code.
local function request_framing(found, request, body, length)
  local wanted = given_length(found)
  if found.coding or wanted == false or wanted and wanted ~= (length or wanted) then
    return false, "headers contradict the body's framing", "invalid-header-value"
  end
  length = length or wanted
  if length == nil then return nil, "Transfer-Encoding: chunked\r\n" end
  if body or wanted or expects_body[request.method] then return length, format("Content-Length: %d\r\n", length) end
  return length, ""
end

-- The whole head, or nil, message, code; then the length as above.
local function request_head(request, body, length)
  local line, message, code = request_line(request)
  if not line then return nil, message, code end
  local out = { line }
  local found
  found, message, code = add_fields(out, request.headers)
  if not found then return nil, message, code end
  length, message, code = request_framing(found, request, body, length)
  if length == false then return nil, message, code end
  out[#out + 1] = message .. "\r\n"
  return concat(out), length
end

--- The checked head of a request and its body, not sent yet: `{ head, body, length }`, `length` nil where the body goes
-- out chunked. `request.length` says how much of a Reader is the body.
---@param request table
---@return {head: string, body: any, length: integer?}|nil
---@return string? message
---@return string? code
function writing.prepare_request(request)
  local body, length = body_of(request.body)
  if body == false then return refuse("invalid-header-value", "body is neither string, Reader, file nor function") end
  if type(body) ~= "string" and request.length then length = request.length end
  local head, message, code = request_head(request, body, length)
  if not head then return nil, message, code end
  local small = message and (body == nil or type(body) == "string" and #body <= SMALL)
  return { head = head, body = body, length = message, small = small }
end

--- Sends the body of a prepared request, when its head has been sent. Flushes. May yield.
---@param writer partline.Writer
---@param ready table
---@return partline.Writer|nil
---@return string? message
---@return string? code
function writing.write_prepared_body(writer, ready)
  local ok, message, code = write_body(writer, ready.body, ready.length, ready.length == nil)
  if ok then ok, message, code = writer:flush() end
  if not ok then return nil, message, code end
  return writer
end

--- Sends a prepared request. Flushes. May yield.
---@param writer partline.Writer
---@param ready table
---@return partline.Writer|nil
---@return string? message
---@return string? code
function writing.write_prepared(writer, ready)
  if ready.body == nil and ready.length then return writer:send(ready.head) end
  if type(ready.body) == "string" and ready.length then return writer:send(ready.head, ready.body) end
  local ok, message, code = writer:write(ready.head)
  if not ok then return nil, message, code end
  return writing.write_prepared_body(writer, ready)
end

--- A Writer over whatever takes bytes: a Writer, a function, a file handle, or an object with `write` or `send`.
---@param sink any
---@return partline.Writer
function writing.over(sink)
  if core.writer.is(sink) then return sink end
  if type(sink) == "function" then return core.writer["function"](sink) end
  local method = (type(sink) == "table" or type(sink) == "userdata") and (sink.write or sink.send)
  if not method then error("a writer is expected, not a " .. type(sink), 3) end
  return core.writer["function"](function(bytes) return method(sink, bytes) end)
end

--- Writes a request: `method`, `target` (or `path` and `query`), `headers`, `body` (string, Reader, file handle or
-- function). Content-Length is set by us where the length is known, else the body is chunked. Refused before a byte is
-- sent: control characters, a Transfer-Encoding, a Content-Length that is not the body's. Flushes. May yield.
---@param writer partline.Writer
---@param request table
---@return partline.Writer|nil
---@return string? message
---@return string? code
function writing.write_request(writer, request)
  local ready, message, code = writing.prepare_request(request)
  if not ready then return nil, message, code end
  return writing.write_prepared(writer, ready)
end

-- ---- responses ----

local function bodiless(status)
  return status < 200 or status == 204 or status == 304
end

-- What a `stream` function is given: writes a piece and sends it. `told.left`: bytes its Content-Length leaves;
-- `told.message`, `told.code`: why it failed, which every later call repeats.
local function piece_writer(writer, told, chunked)
  return function(piece)
    if type(piece) ~= "string" then error("write: a string expected, not a " .. type(piece), 2) end
    if told.left and #piece > told.left then
      told.message, told.code = "stream is longer than its Content-Length", "body-too-large"
    end
    if told.message then return nil, told.message, told.code end
    local ok, message, code
    if chunked then ok, message, code = write_chunk(writer, piece) else ok, message, code = writer:write(piece) end
    if ok then ok, message, code = writer:flush() end
    if told.left then told.left = told.left - #piece end
    if ok then return true end
    told.message, told.code = message, code
    return nil, message, code
  end
end

-- A `stream` function writes the body itself.
local function run_stream(writer, response, length, chunked)
  local told = { left = length }
  response.stream(piece_writer(writer, told, chunked))
  if told.message then return nil, told.message, told.code end
  if told.left and told.left > 0 then return nil, "stream is shorter than its Content-Length", "unexpected-eof" end
  if chunked then return end_chunks(writer, response.trailers) end
  return writer
end

-- The body of a response → string, Reader or nil; its length when known; its Content-Type line when we set it. Or
-- false, message, code.
local function response_body(response)
  if response.stream then return nil, nil, "" end
  if response.multipart then
    local parts = response.multipart
    local opts = { subtype = parts.subtype, boundary = parts.boundary }
    local built, message, code = require("partline.multipart").build(parts, opts)
    if not built then return false, message, code end
    return built.reader, built.length, "Content-Type: " .. built.content_type .. "\r\n"
  end
  local body, length = body_of(response.body)
  if body == false then
    return false, "body is neither string, Reader, file nor function", "invalid-header-value"
  end
  return body, length, ""
end

-- What the status and the method leave of a body (RFC 9110 6.4.1, 9.3.6), and whether the head may still tell its
-- length.
local function silenced(status, method, empty)
  if status == 304 or method == "HEAD" and empty and not bodiless(status) then return true, true end
  return bodiless(status) or method == "CONNECT" and status // 100 == 2, false
end

-- How the body goes out: "none", "length", "chunked" or "close", and its length; or nil, message, code when the headers
-- contradict it.
local function choose_framing(found, response, body, length, about)
  local wanted = given_length(found)
  if found.coding then return refuse("invalid-header-value", "Transfer-Encoding is set by the library") end
  if wanted == false then return refuse("invalid-header-value", "Content-Length is not one decimal number") end
  local silent, told = silenced(response.status or 200, about.method, body == nil and not response.stream)
  if silent then return "none", told and wanted or nil end
  local trailers = response.trailers
  if wanted and (trailers or length and wanted ~= length) then
    return refuse("invalid-header-value", "Content-Length contradicts the body")
  end
  length = length or wanted
  if length and (not trailers or about.http10) then return "length", length end
  return about.http10 and "close" or "chunked"
end

-- What the response's own Connection field says of the connection.
local function says_close(found)
  local value = found.connection
  return value ~= nil and ("," .. value:lower():gsub("%s", "") .. ","):find(",close,", 1, true) ~= nil
end

-- The names of trailers known beforehand (RFC 9110 6.6.2), checked while a refusal can still be told.
local function trailer_line(trailers)
  if type(trailers) ~= "table" then return "" end
  local section, message, code = trailer_section(trailers)
  if not section then return nil, message, code end
  local names = {}
  for name, value in pairs(trailers) do names[#names + 1] = type(name) == "number" and value[1] or name end
  if #names == 0 then return "" end
  table.sort(names)
  return "Trailer: " .. concat(names, ", ") .. "\r\n"
end

-- The field lines that we add for the framing.
local function framing_lines(framing, length)
  if framing == "chunked" then return "Transfer-Encoding: chunked\r\n" end
  return length and "Content-Length: " .. length .. "\r\n" or ""
end

local function connection_line(status, found, keep_alive, about)
  if status == 101 then return found.connection and "" or "Connection: upgrade\r\n" end
  if not keep_alive then return says_close(found) and "" or "Connection: close\r\n" end
  return about.http10 and not found.connection and "Connection: keep-alive\r\n" or ""
end

local always = {} -- how it answers when nobody says

-- The program's own field lines in one string, and what they say of the framing.
local function own_fields(fields)
  if fields == nil then return "", NONE end
  local out = {}
  local found, message, code = add_fields(out, fields)
  if not found then return nil, message, code end
  return concat(out), found
end

-- → the head, its framing, the body's length, whether the connection goes on; or nil, message, code.
local function response_head(response, body, length, kind, about)
  local status = response.status or 200
  local line, message, code = status_line(status, response.reason_phrase)
  if not line then return nil, message, code end
  local fields, found, framing
  fields, found, code = own_fields(response.headers)
  if not fields then return nil, found, code end
  if kind ~= "" and found.type then
    return refuse("invalid-header-value", "Content-Type of a multipart response is set by the library")
  end
  framing, length, code = choose_framing(found, response, body, length, about)
  if not framing then return nil, length, code end
  local trailer = ""
  if framing == "chunked" and response.trailers then
    trailer, message, code = trailer_line(response.trailers)
    if not trailer then return nil, message, code end
  end
  local keep_alive = about.keep_alive ~= false and framing ~= "close" and not says_close(found)
  local head = line .. fields .. kind .. (found.date and "" or date_line()) .. framing_lines(framing, length)
    .. trailer .. connection_line(status, found, keep_alive, about) .. "\r\n"
  return head, framing, length, keep_alive
end

-- Head and body, sent. → Writer | nil, message, code.
local function put(writer, response, head, body, length, framing, silent)
  if silent or body == nil and not response.stream and framing ~= "chunked" then return writer:send(head) end
  if type(body) == "string" and framing == "length" then return writer:send(head, body) end
  local ok, message, code = writer:write(head)
  if not ok then return nil, message, code end
  if response.stream then
    ok, message, code = run_stream(writer, response, framing == "length" and length or nil, framing == "chunked")
  else
    ok, message, code = write_body(writer, body, length, framing == "chunked", response.trailers)
  end
  if not ok then return nil, message, code end
  return writer:flush()
end

--- Writes a response: `status` (200), `reason_phrase`, `headers`, and `body` (string, Reader, file handle or function
-- returning pieces), `stream` (`function(write)`) or `multipart` (parts as for `multipart.build`); `trailers`, a table
-- or a function that gives one at the end, makes the body chunked. `about` says what it answers: `method`, `http10`,
-- `keep_alive` (default true); its `head_bytes` and `framing` are set. Content-Length or chunked coding is set by us;
-- 1xx, 204, 304 and answers to HEAD carry no body. What fails before a byte has left is dropped from the Writer. May
-- yield; flushes.
---@param writer partline.Writer
---@param response table
---@param about {method: string?, http10: boolean?, keep_alive: boolean?}?
---@return boolean|nil keep_alive whether the connection may go on; nil, message, code when it failed
---@return string? message
---@return string? code
---@return boolean? begun whether bytes were sent before it failed
function writing.write_response(writer, response, about)
  about = about or always
  local body, length, kind = response_body(response)
  if body == false then return nil, length, kind end
  local head, framing, keep_alive
  head, framing, length, keep_alive = response_head(response, body, length, kind, about)
  if not head then return nil, framing, length, false end
  if about ~= always then about.head_bytes, about.framing = #head, framing end
  local before = type(body) ~= "string" and writer:status()
  local silent = framing == "none" or about.method == "HEAD"
  local ok, message, code = put(writer, response, head, body, length, framing, silent)
  if ok then return keep_alive end
  local sent, _, broken = writer:status()
  local begun = broken ~= nil or sent ~= before
  if not begun then writer:discard() end
  return nil, message, code, begun
end

return writing
