---@meta partline.parser

---What else a head says. Shared by many messages: not to be changed.
---@class partline.About
---@field framing "none" | "length" | "chunked" | "close"
---@field keep_alive boolean
---@field upgrade boolean
---@field http10 boolean
---@field coded boolean there is a Content-Encoding
---@field expect "continue" | "other" | nil
---@field plain boolean no body, and nothing of the above is special

---A callback returns "pause", nil or false with a message (and a code), or anything else, which means nothing.
---@class partline.ParserCallbacks
---@field on_head? fun(message: table, about: partline.About): ...
---@field on_interim? fun(response: table, about: partline.About): ... responses only: 1xx but 101
---@field on_body? fun(bytes: string): ...
---@field on_trailers? fun(headers: partline.Headers): ...
---@field on_finish? fun(): ...

---@class partline.ParserOptions : partline.Limits
---@field lower_names? boolean field names in lower case
---@field method? string of the request that responses answer
---@field max_body? integer bytes of a body

---@class partline.PartMeta
---@field name string?
---@field filename string?
---@field ["filename*"] string?
---@field type string?
---@field length integer?

---Called with each piece, and with nil at the end; or an object with `write(self, piece)` and perhaps `finish(self)`.
---@alias partline.PartSink (fun(piece: string?): ...) | table | userdata

---@alias partline.Into fun(sink: partline.PartSink)
---@alias partline.OnPart fun(name?: string, h: partline.Headers, meta: partline.PartMeta, into: partline.Into): ...

---A push parser.
---@class partline.Parser
local Parser = {}

---Stops behind a message. May yield where a callback does.
---@param bytes string
---@param i? integer as for string.sub
---@param j? integer
---@return integer? used
---@return string? message
---@return partline.Code? code
function Parser:feed(bytes, i, j) end

---The input is over. False: a callback paused, call again.
---@return boolean? done
---@return string? message
---@return partline.Code? code
function Parser:finish() end

---The method of the request that the next responses answer.
---@param method string?
---@return partline.Parser
function Parser:method(method) end

---@return true
function Parser:close() end

---@class partline.ParserModule
local parser = {}

---@param callbacks partline.ParserCallbacks
---@param opts? partline.ParserOptions
---@return partline.Parser
function parser.request(callbacks, opts) end

---@param callbacks partline.ParserCallbacks
---@param opts? partline.ParserOptions
---@return partline.Parser
function parser.response(callbacks, opts) end

---@param content_type string the whole field value
---@param on_part partline.OnPart | {on_part?: partline.OnPart, on_finish?: function}
---@param limits? partline.ParserOptions
---@return partline.Parser?
---@return string? message
---@return partline.Code? code
function parser.multipart(content_type, on_part, limits) end

---@param s string
---@param i? integer
---@param opts? partline.ParserOptions
---@return partline.Request? request
---@return integer | string next index behind the head, or "incomplete", or a message
---@return partline.About | partline.Code | nil about
function parser.parse_request(s, i, opts) end

---@param s string
---@param i? integer
---@param opts? partline.ParserOptions
---@return table? response
---@return integer | string next
---@return partline.About | partline.Code | nil about
function parser.parse_response(s, i, opts) end

return parser
