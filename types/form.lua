---@meta partline.form

---@class partline.FormField
---@field name string
---@field value string

---@class partline.FormFile
---@field name string
---@field filename string as the client says; may hold a path
---@field ["filename*"] string?
---@field path string where it was put
---@field size integer
---@field mime_type string?
---@field headers partline.Headers

---@class partline.Form
---@field fields partline.FormField[]
---@field files partline.FormFile[]
local Form = {}

---@param name string
---@return string?
function Form:get(name) end

---@param name string
---@return string[]
function Form:get_all(name) end

---@param name string
---@return partline.FormFile?
function Form:file(name) end

function Form:remove() end

---@class partline.FormOptions: partline.Limits
---@field max_parameters? integer
---@field max_field_size? integer
---@field max_fields_size? integer
---@field max_files? integer
---@field max_file_size? integer
---@field max_files_size? integer
---@field dir? string

---@class partline.FormModule
local form = {}

---@param request partline.Request
---@param opts? partline.FormOptions
---@return partline.Form?
---@return string? message
---@return partline.Code? code
function form.read(request, opts) end

---@param s string
---@param max? integer
---@return string[][]?
---@return string? message
---@return partline.Code? code
function form.decode(s, max) end

---@param t table
---@return string
function form.encode(t) end

return form
