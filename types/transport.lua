---@meta partline.transport.luasocket

---A non-blocking connection. `recv` and `send` never wait.
---@class partline.transport.Conn
---@field fd? integer descriptor C may use directly; nil: only through recv and send
---@field pollfd? integer descriptor to wait for
---@field pending? string bytes read ahead by LuaSocket, to be taken before reading fd
---@field sock? table the LuaSocket or LuaSec object; nil when closed
---@field tls? true
---@field kind "tcp" | "unix" | "other"
---@field loop partline.Loop
local conn = {}

---@param max? integer default 16384
---@return string? bytes
---@return string? message
---@return string? code "timeout": would block
function conn:recv(max) end

---@param s string
---@param from? integer first byte to send, default 1
---@return integer? last index of the last byte sent
---@return string? message
---@return string? code "timeout": would block
---@return integer? last resume at last + 1
function conn:send(s, from) end

---@param mode partline.loop.Mode
---@param deadline? number absolute
---@return true? ok
---@return string? message
---@return string? code
function conn:wait(mode, deadline) end

---@return string? host "unix" for a Unix socket
---@return integer | string? port or message
---@return string? code
function conn:peername() end

---@param how? "send" | "receive" | "both"
---@return true? ok
---@return string? message
---@return string? code
function conn:shutdown(how) end

---@param params table for LuaSec's ssl.wrap; server_name for SNI
---@param deadline? number absolute
---@return partline.transport.Conn? self
---@return string? message
---@return string? code
function conn:starttls(params, deadline) end

---Closes so that the peer sees a failure instead of an end.
function conn:abort() end

function conn:close() end

---@class partline.transport.Listener
local listener = {}

---@param deadline? number absolute
---@return partline.transport.Conn? conn
---@return string? message
---@return string? code "too-many-files" and "aborted": call again
function listener:accept(deadline) end

---@return string? host or path
---@return integer | string? port or message
---@return string? code
function listener:getsockname() end

---@return integer? fd
function listener:fd() end

function listener:close() end

---@class partline.transport.ListenOptions
---@field host? string default "127.0.0.1"; "*" is every IPv4 address
---@field port? integer default 0
---@field unix? string path, instead of host and port
---@field backlog? integer default 1024
---@field reuseaddr? boolean default true
---@field reuseport? boolean
---@field loop? partline.Loop

---@class partline.transport.ConnectOptions
---@field host? string
---@field port? integer
---@field unix? string path, instead of host and port
---@field deadline? number absolute
---@field loop? partline.Loop

---@class partline.transport.LuaSocket
---@field name "luasocket"
---@field has_unix boolean
local transport = {}

---@param opts partline.transport.ListenOptions
---@return partline.transport.Listener? listener
---@return string? message
---@return string? code
function transport.listen(opts) end

---@param opts partline.transport.ConnectOptions
---@return partline.transport.Conn? conn
---@return string? message
---@return string? code
function transport.connect(opts) end

---@param sock table
---@param opts? {loop: partline.Loop?}
---@return partline.transport.Conn? conn
---@return string? message
---@return string? code
function transport.wrap(sock, opts) end

---A TLS context for starttls of many connections.
---@param params table for LuaSec's ssl.newcontext
---@return table? params for starttls
---@return string? message
---@return string? code
function transport.tls_context(params) end

return transport
