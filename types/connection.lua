---@meta partline.connection

---The rest of it is in types/reader.lua.
---@class partline.Writer
local writer = {}

---write and flush.
---@param ... string | number
---@return partline.Writer? self
---@return string? message
---@return partline.Code? code
function writer:send(...) end

---Drops what was gathered and not sent.
---@return partline.Writer self
function writer:discard() end

---@class partline.Connection
---@field conn partline.transport.Conn
---@field reader partline.Reader
---@field writer partline.Writer
local connection = {}

---@param timeout? number seconds without progress
---@param deadline? number absolute
---@param from_then? number seconds after the next bytes
function connection:patient(timeout, deadline, from_then) end

---Waits somebody, under from_then, for bytes of which none has come?
---@return boolean
function connection:expecting() end

---@param bytes integer
---@param seconds number
---@param unread? boolean
function connection:linger(bytes, seconds, unread) end

function connection:abort() end

function connection:close() end

local module = {}

---@param conn partline.transport.Conn
---@param opts? {timeout: number?, deadline: number?}
---@return partline.Reader
function module.reader(conn, opts) end

---@param conn partline.transport.Conn
---@param opts? {timeout: number?}
---@return partline.Writer
function module.writer(conn, opts) end

---@param conn partline.transport.Conn
---@param opts? {write_timeout: number?}
---@return partline.Connection
function module.new(conn, opts) end

return module
