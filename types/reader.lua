---@meta partline.reader

---Bytes as they arrive. The end is nil alone; a failure is nil, message, code. What may wait may yield.
---@class partline.Reader
---@operator len: integer?
local Reader = {}

---@alias partline.ReadFormat integer | "l" | "L" | "a" | "*l" | "*L" | "*a"

---One answer per format, as files do; "l" without one. A number gives exactly so many bytes, or fewer at the end.
---@param ... partline.ReadFormat
---@return string? bytes
---@return string? message or the next answer
---@return partline.Code? code or the next answer
---@return string? ...
function Reader:read(...) end

---What is at hand, at least one byte.
---@param max? integer default 65536
---@return string? bytes
---@return string? message
---@return partline.Code? code
function Reader:read_some(max) end

---Failures are raised as partline.Error.
---@param format? partline.ReadFormat default "l"
---@return fun(): string?
function Reader:lines(format) end

---The next bytes without using them; fewer than n only at the end.
---@param n? integer default 1, at most 65536
---@return string? bytes
---@return string? message
---@return partline.Code? code
function Reader:peek(n) end

---@class partline.Sink
---@field write? fun(self: any, bytes: string): any, string?, string?
---@field send? fun(self: any, bytes: string): any, string?, string?

---Moves n bytes, or all.
---@param sink file* | partline.Writer | partline.Sink | fun(bytes: string): any, string?, string?
---@param n? integer
---@return integer? moved
---@return string? message
---@return partline.Code? code
function Reader:copy(sink, n) end

---Copies all into a new file, which is there when it is whole, or not at all.
---@param path string
---@return integer? bytes
---@return string? message
---@return partline.Code? code
function Reader:save(path) end

---Discards n bytes, or all.
---@param n? integer
---@return integer? skipped
---@return string? message
---@return partline.Code? code
function Reader:skip(n) end

---@return integer? bytes left, nil when nobody knows
function Reader:length() end

---The trailer fields of a chunked body, after its end.
---@return partline.Headers?
function Reader:trailers() end

---An LTN12 source.
---@return fun(): string?, string?, partline.Code?
function Reader:source() end

---@return "open" | "ended" | "failed" | "closed" state
---@return integer given bytes given out
---@return partline.Code? code of its failure
function Reader:status() end

---`max_all`: most bytes of read("a") or a line. Sockets: `timeout` (seconds without progress), `deadline` (loop.now()).
---@param t {max_all: integer?, timeout: number?, deadline: number?}
---@return partline.Reader self
function Reader:limits(t) end

---f(ended) is called once, when the Reader is closed or collected. It must not yield.
---@param f? fun(ended: boolean)
---@return partline.Reader self
function Reader:on_close(f) end

---@return true
function Reader:close() end

---Gathers small writes, sends large ones without a copy.
---@class partline.Writer
local Writer = {}

---@param ... string | number
---@return partline.Writer? self
---@return string? message
---@return partline.Code? code
function Writer:write(...) end

---@return partline.Writer? self
---@return string? message
---@return partline.Code? code
function Writer:flush() end

---@return integer sent
---@return integer waiting
---@return partline.Code? code of its failure
function Writer:status() end

---Drops what was not flushed; the socket is its owner's.
---@return true
function Writer:close() end

---@class partline.ReaderModule
local reader = {}

---@param s string
---@return partline.Reader
function reader.from_string(s) end

---A path (closed with the Reader) or an open handle (its owner's).
---@param file string | file*
---@param range? {from: integer?, to: integer?} offsets of the first and last byte, from 0
---@return partline.Reader?
---@return string? message
---@return partline.Code? code
function reader.from_file(file, range) end

---@param f fun(): string?, string?, string? the next piece; nil at the end; nil, message, code
---@return partline.Reader
function reader.from_function(f) end

---@param source fun(): string?, string?
---@return partline.Reader
function reader.from_ltn12(source) end

---@param sock table | userdata LuaSocket or LuaSec object, or any with receive; stays its owner's
---@param opts? {timeout: number?} seconds without progress, default 30
---@return partline.Reader?
---@return string? message
---@return partline.Code? code
function reader.from_socket(sock, opts) end

---One of the two is enough; names in kebab-case will do.
---@class partline.ReadMethods
---@field read_bytes? fun(object: any, n: integer): string?, string?, string?
---@field read_line? fun(object: any, format: string): string?, string?, string?

---@param object any
---@param methods partline.ReadMethods
---@return partline.Reader
function reader.make(object, methods) end

---A Reader of whatever holds bytes.
---@param x partline.Reader | string | file* | function | table | userdata
---@return partline.Reader?
---@return string? message
---@return partline.Code? code
function reader.of(x) end

---Decodes chunked transfer coding.
---@param r partline.Reader
---@param limits? {lenient: boolean?, chunk_line: integer?, chunk_ext: integer?, trailer: integer?}
---@return partline.Reader
function reader.chunked(r, limits) end

---The next n bytes.
---@param r partline.Reader
---@param n integer
---@param exact? boolean whether fewer are a failure
---@return partline.Reader
function reader.limit(r, n, exact) end

---@param x any
---@return boolean
function reader.is_reader(x) end

return reader
