--- Whole files.

local M = {}

--- Its bytes, or nil, message.
function M.read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local bytes = file:read("a")
  file:close()
  return bytes
end

--- → path
function M.write(path, bytes)
  local file = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  assert(file:close())
  return path
end

--- A new file with these bytes, which whoever asked for it removes; → path.
function M.temporary(bytes)
  return M.write(os.tmpname(), bytes)
end

return M
