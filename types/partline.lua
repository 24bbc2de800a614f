---@meta partline

---What is returned behind nil and a message. Sources and sinks may bring codes of their own.
---@alias partline.Code
---| "bad-chunk-ext"
---| "bad-chunk-size"
---| "bad-chunk-terminator"
---| "bad-content-length"
---| "bad-content-type"
---| "bad-disposition"
---| "bad-first-boundary"
---| "bad-header"
---| "bad-header-name"
---| "bad-header-value"
---| "bad-host"
---| "bad-line-ending"
---| "bad-request-line"
---| "bad-request-target"
---| "bad-status-line"
---| "bad-trailer"
---| "bad-transfer-encoding"
---| "bad-url"
---| "bad-version"
---| "body-in-use"
---| "body-too-large"
---| "boundary-too-long"
---| "chunk-ext-too-large"
---| "chunk-size-overflow"
---| "closed"
---| "conflicting-length"
---| "duplicate-boundary"
---| "expectation-failed"
---| "header-too-large"
---| "invalid-boundary"
---| "invalid-header-value"
---| "invalid-request-line"
---| "missing-disposition"
---| "missing-name"
---| "no-boundary"
---| "no-memory"
---| "no-progress"
---| "obs-fold"
---| "read-failed"
---| "source-failed"
---| "stale-part"
---| "te-and-cl"
---| "timeout"
---| "too-many-parameters"
---| "too-many-parts"
---| "trailer-too-large"
---| "unexpected-eof"
---| "unsupported-transfer-encoding"
---| "upgraded"
---| "uri-too-long"
---| "write-failed"
---| string

---What iterators and `partline.check` raise; `tostring` gives the message.
---@class partline.Error
---@field code partline.Code
---@field status integer what a server answers with
---@field message string

---Limits of what is read; see doc/options.md. Bytes, unless said otherwise.
---@class partline.Limits
---@field max_head? integer head of a message (16384)
---@field max_fields? integer its field lines (100)
---@field max_target? integer request target (8192)
---@field max_body_in_memory? integer what read("a") or a line of a request's body may gather (64 MiB)
---@field max_chunk_line? integer one chunk-size line (4096)
---@field max_chunk_ext? integer all chunk extensions of a body (16384)
---@field max_trailer? integer trailer section (16384)
---@field max_boundary? integer boundary of a multipart body (70)
---@field max_parts? integer number of parts (1000)
---@field max_part_head? integer head of a part (16384)
---@field max_part_fields? integer field lines of a part (16)

---Submodules load on first use.
---@class partline.Module
---@field _VERSION string
---@field errors table<partline.Code, {status: integer, text: string}>
---@field reader partline.ReaderModule
---@field headers partline.HeadersModule
---@field message partline.MessageModule
---@field multipart partline.MultipartModule
---@field parser partline.ParserModule
---@field loop partline.LoopModule
---@field url table
---@field form table
---@field server table
---@field client table
---@field connection table
---@field request function of the client
---@field get function of the client
---@field head function of the client
---@field post function of the client
---@field put function of the client
---@field delete function of the client
---@field patch function of the client
---@field options function of the client
local partline = {}

---Passes values through; raises an error object in place of nil, message, code.
---@generic T
---@param value T?
---@param message? string
---@param code? partline.Code
---@param ... any
---@return T value
---@return any ...
function partline.check(value, message, code, ...) end

---Yields in a task, blocks elsewhere.
---@param seconds number
---@return true? ok
---@return string? message
---@return string? code
function partline.sleep(seconds) end

---@param f function
---@param ... any
---@return partline.loop.Task
function partline.spawn(f, ...) end

---Runs until no task is left; with f until f(...) has returned.
---@param f? function
---@param ... any
---@return any ... results of f
function partline.run(f, ...) end

return partline
