---@meta partline.client

---@class partline.ClientResponse
---@field status integer
---@field reason_phrase string
---@field headers partline.Headers
---@field body string|partline.Reader|any nil where there is none
---@field length integer?
---@field protocol_version {name: string, major: integer, minor: integer}
---@field request_time integer milliseconds
---@field http_client partline.Connection
---@field trace_redirects string[]

---@class partline.ClientOptions: partline.Limits
---@field headers? table
---@field query_params? table|string
---@field body? any
---@field length? integer
---@field multipart? partline.PartToSend[]
---@field mime_subtype? string
---@field form? table
---@field as? "raw"|"stream"|"json"
---@field async? boolean
---@field throw_errors? boolean
---@field follow_redirects? boolean
---@field max_redirects? integer
---@field timeout? number seconds for everything
---@field connect_timeout? number
---@field head_timeout? number
---@field body_timeout? number
---@field write_timeout? number
---@field expect? boolean
---@field expect_over? integer bytes
---@field continue_timeout? number
---@field retry? boolean
---@field pool? partline.Pool|false
---@field http_client? partline.Connection
---@field proxy? string|false
---@field unix? string
---@field tls? table
---@field decompress? boolean
---@field loop? table
---@field transport? table

---@class partline.Pool
local Pool = {}

---Closes what is idle; other connections are closed when they come back.
function Pool:close() end

---@return {idle: integer, lent: integer}
function Pool:stats() end

---@class partline.ClientModule
local client = {}

---@param method string
---@param url string|table
---@param opts? partline.ClientOptions
---@param on_response? fun(response: partline.ClientResponse)
---@param on_raise? fun(err: any)
---@return partline.ClientResponse|table|nil response or, with `async`, a task
---@return string? message
---@return partline.Code? code
function client.request(method, url, opts, on_response, on_raise) end

---@alias partline.Request1 fun(url: string|table, opts?: partline.ClientOptions, on_response?: function,
---on_raise?: function): partline.ClientResponse?, string?, partline.Code?

---@type partline.Request1
client.get = nil
---@type partline.Request1
client.head = nil
---@type partline.Request1
client.post = nil
---@type partline.Request1
client.put = nil
---@type partline.Request1
client.delete = nil
---@type partline.Request1
client.patch = nil
---@type partline.Request1
client.options = nil
---@type partline.Request1
client.trace = nil
---@type partline.Request1
client.connect = nil

---@param opts? {max_idle: integer?, max_idle_per_host: integer?, idle_timeout: number?}
---@return partline.Pool
function client.pool(opts) end

---@param opts? partline.ClientOptions
---@return partline.ClientModule
function client.new(opts) end

return client
