---@meta partline.server

---What a handler returns.
---@class partline.Answer: partline.ResponseToSend
---@field upgrade? fun(reader: partline.Reader, writer: partline.Writer) with 101, or a 2xx to CONNECT

---@alias partline.Handler fun(request: partline.Request): partline.Answer | string | partline.Reader

---@class partline.ServerOptions
---@field host? string default "127.0.0.1"; "*": every IPv4 address
---@field port? integer default 0: the system picks
---@field unix? string path of a Unix socket instead
---@field reuseport? boolean
---@field backlog? integer default 1024
---@field tls? table key, certificate and what else LuaSec's newcontext takes
---@field on_error? fun(err: any, request: partline.Request?, traceback: string?)
---@field log? file* | fun(line: string, request: partline.Request?, status: integer, bytes: integer)
---@field head_timeout? number seconds, default 10
---@field body_timeout? number default 30
---@field idle_timeout? number default 60
---@field write_timeout? number default 30
---@field max_connections? integer default 10000
---@field drain_bytes? integer default 1 MiB
---@field drain_timeout? number default 2
---@field max_head? integer default 16 KiB
---@field max_fields? integer default 100
---@field max_target? integer default 8 KiB
---@field max_chunk_line? integer default 4 KiB
---@field max_chunk_ext? integer default 16 KiB
---@field max_trailer? integer default 16 KiB
---@field max_body_in_memory? integer default 64 MiB
---@field max_parts? integer default 1000
---@field max_part_head? integer default 16 KiB
---@field max_part_fields? integer default 16
---@field max_boundary? integer default 70
---@field late_headers? boolean default true
---@field loop? partline.Loop
---@field transport? table

---@class partline.Stats
---@field connections integer open now
---@field accepted integer
---@field requests integer
---@field bytes_in integer
---@field bytes_out integer
---@field errors table<string, integer> by code

---Functions may be called with a dot or a colon.
---@class partline.Server
---@field host string
---@field port? integer
local server = {}

---Runs the loop until the server is closed; in a task, waits there.
---@return true
function server.wait() end

---One round of the loop.
---@param seconds? number
---@return boolean running
function server.step(seconds) end

---@return integer? fd to watch from another loop
function server.pollfd() end

---@return "r"
function server.events() end

---@return number? seconds until step must run in any case
function server.timeout() end

---No new connections, idle ones closed, handlers finished within `grace` seconds or cut off.
---@param grace? number default 10
---@return true
function server.stop(grace) end

---Everything at once.
---@return true
function server.close() end

---@return partline.Stats
function server.stats() end

---@class partline.ServerModule
local module = {}

---@param handler partline.Handler
---@param opts? partline.ServerOptions
---@return partline.Server? server
---@return string? message
---@return string? code
function module.start(handler, opts) end

return module
