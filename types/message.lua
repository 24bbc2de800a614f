---@meta partline.message

---@class partline.Version
---@field name "HTTP"
---@field major 1
---@field minor integer

---@class partline.Request
---@field method string
---@field target string as sent
---@field path string the target up to "?", not decoded
---@field query string? what is behind it
---@field protocol_version partline.Version
---@field headers partline.Headers
---@field length integer? bytes of the body, when told
---@field body partline.Reader? the raw Reader; nil without a body
---@field content partline.Reader? the same, unless the body is multipart
---@field parts partline.Parts? multipart bodies only

---A response that was read.
---@class partline.Response
---@field status integer
---@field reason_phrase string
---@field protocol_version partline.Version
---@field headers partline.Headers
---@field length integer?
---@field body partline.Reader?

---@alias partline.Body string | partline.Reader | file* | fun(): string?, string?, string?

---@class partline.RequestToSend
---@field method? string default "GET"
---@field target? string or path and query
---@field path? string
---@field query? string
---@field headers? table<string, string | number | string[]>
---@field body? partline.Body

---@class partline.ResponseToSend
---@field status? integer default 200
---@field reason_phrase? string
---@field headers? table<string, string | number | string[]>
---@field body? partline.Body
---@field stream? fun(write: fun(bytes: string): true?, string?, partline.Code?)
---@field multipart? partline.PartToSend[]
---@field trailers? table | fun(): table

---@alias partline.AnySink partline.Writer | partline.Sink | file* | fun(bytes: string): any, string?, string?

---The memory and limits of one connection's heads.
---@class partline.MessageParser

---@class partline.About
---@field keep_alive boolean
---@field upgrade boolean
---@field expect? "continue" | "other" requests only

---@class partline.MessageModule
---@field headers partline.HeadersModule
local message = {}

---nil alone at a clean end. May yield.
---@param reader partline.Reader
---@param limits? partline.Limits
---@return partline.Request?
---@return string? message
---@return partline.Code? code
function message.read_request(reader, limits) end

---Interim responses are skipped. nil alone at a clean end. May yield.
---@param reader partline.Reader
---@param request? {method: string?} what it answers
---@param limits? partline.Limits
---@return partline.Response?
---@return string? message
---@return partline.Code? code
function message.read_response(reader, request, limits) end

---@param limits? partline.Limits
---@return partline.MessageParser
function message.parser(limits) end

---@param reader partline.Reader
---@param parser partline.MessageParser
---@return partline.Request?
---@return partline.About | string | nil about or message
---@return partline.Code? code
function message.next_request(reader, parser) end

---@param reader partline.Reader
---@param parser partline.MessageParser
---@param method? string of the request it answers
---@param on_interim? fun(response: partline.Response)
---@return partline.Response?
---@return partline.About | string | nil about or message
---@return partline.Code? code
function message.next_response(reader, parser, method, on_interim) end

---May yield; flushes.
---@param writer partline.AnySink
---@param request partline.RequestToSend
---@return partline.Writer?
---@return string? message
---@return partline.Code? code
function message.write_request(writer, request) end

---May yield; flushes.
---@param writer partline.AnySink
---@param response partline.ResponseToSend
---@param about? {method: string?, http10: boolean?, keep_alive: boolean?}
---@return boolean? keep_alive whether the connection may go on
---@return string? message
---@return partline.Code? code
---@return boolean? begun whether bytes were sent before it failed
function message.write_response(writer, response, about) end

return message
