---@meta partline.multipart

---One part. The iterator's next step ends it: its content is then "stale-part".
---@class partline.Part
---@field name string? always there in form-data
---@field filename string? as the client says; may hold a path
---@field ["filename*"] string? decoded, RFC 8187
---@field type string? disposition
---@field headers partline.Headers
---@field length integer? what it claims
---@field content partline.Reader up to the boundary

---Gives the next part, or nil; raises partline.Error. May yield. With the request as its argument (`request:parts()`),
---the four values of a generic for.
---@alias partline.Parts fun(request: partline.Request?): partline.Part?

---@class partline.PartToSend
---@field name? string
---@field content? partline.Body | table
---@field filename? string
---@field ["filename*"]? string
---@field length? integer
---@field headers? table
---@field mime_type? string
---@field type? string of the disposition
---@field multipart? partline.PartToSend[] parts inside the part
---@field mime_subtype? string of these

---A body to send.
---@class partline.Multipart
---@field content_type string
---@field length integer? nil: unknown, to be sent chunked
---@field reader partline.Reader
---@field boundary string
---@field again (fun(): partline.Reader)? the same bytes once more, where that is possible
---@field write_to fun(writer: partline.Writer): partline.Writer?, string?, partline.Code?

---@class partline.Disposition
---@field type string
---@field name string?
---@field filename string?
---@field ["filename*"] string?

---@class partline.MultipartModule
local multipart = {}

---Raises partline.Error when the content type has no usable boundary.
---@param source partline.Reader | string | file* | function | table | userdata
---@param content_type string the whole field value
---@param limits? partline.Limits
---@return partline.Parts next
---@return nil
---@return nil
---@return userdata closer
function multipart.parse(source, content_type, limits) end

---@param parts partline.PartToSend[]
---@param opts? {subtype: string?, boundary: string?, type: string?, start: string?}
---@return partline.Multipart?
---@return string? message
---@return partline.Code? code
function multipart.build(parts, opts) end

---@param value string of a Content-Disposition
---@param form? boolean decode names as browsers encode them
---@return partline.Disposition?
---@return string? message
---@return partline.Code? code
function multipart.disposition(value, form) end

---The last component of a path as any system writes it.
---@param filename string
---@return string
function multipart.basename(filename) end

return multipart
