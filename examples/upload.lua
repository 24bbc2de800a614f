--- Saves every file of a multipart POST to a directory as it arrives, in constant memory, and answers JSON.
--
--     lua5.4 examples/upload.lua [--port 8080] [--host 127.0.0.1] [--dir uploads] [--discard] [--quiet]
--     curl -F note=hello -F file=@some.iso http://127.0.0.1:8080/upload

local partline = require("partline")

local usage = "usage: upload.lua [--port N] [--host H] [--dir DIRECTORY] [--discard] [--quiet]\n"
  .. "  --dir      where files go (default uploads, must exist or be creatable)\n"
  .. "  --discard  read files and drop them\n"
  .. "  --quiet    no progress on the terminal\n"

local function options_of(args)
  local opts = { port = 8080, host = "127.0.0.1", dir = "uploads" }
  local i = 1
  while args[i] do
    local name = args[i]:match("^%-%-(%a+)$")
    if name == "discard" or name == "quiet" then
      opts[name] = true
    elseif name == "port" or name == "host" or name == "dir" then
      i = i + 1
      opts[name] = args[i]
    else
      io.stderr:write(usage)
      os.exit(name == "help" and 0 or 2)
    end
    i = i + 1
  end
  return opts
end

local opts = options_of(arg)

-- A name that is safe in our directory whatever the client wrote: no path, no control characters, not hidden, short.
local function safe_name(filename)
  local name = partline.multipart.basename(filename):gsub("[%c\127:*?\"<>|]", "_"):gsub("^[%.%s]+", "")
  if #name > 200 then name = name:sub(-200) end
  return name ~= "" and name or "unnamed"
end

-- The name itself, or with a number before its extension: no upload replaces another.
local function free_path(name)
  local stem, extension = name:match("^(.-)(%.[^.]*)$")
  stem, extension = stem or name, extension or ""
  for i = 0, 9999 do
    local path = ("%s/%s%s%s"):format(opts.dir, stem, i > 0 and "-" .. i or "", extension)
    local file = io.open(path, "rb")
    if not file then return path end
    file:close()
  end
  error("too many files of the name " .. name)
end

local function progress(...)
  if not opts.quiet then io.stderr:write(string.format(...), "\n") end
end

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

-- A JSON string; what is no UTF-8 is shown byte by byte.
local function json_string(s)
  local pattern = utf8.len(s) and '[%c"\\\127]' or '[%c"\\\127-\255]'
  return '"' .. s:gsub(pattern, function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- One part as JSON: its content goes to a file, or is skipped.
local function take(part)
  local start = partline.loop.now()
  local saved, size
  if part.filename and part.filename ~= "" and not opts.discard then
    saved = free_path(safe_name(part.filename))
    progress("saving %s", saved)
    size = partline.check(part.content:save(saved))
  else
    size = partline.check(part.content:skip())
  end
  local seconds = partline.loop.now() - start
  progress("%s: %d bytes in %.3f s, %.0f MB/s", saved or part.name, size, seconds, size / 1e6 / math.max(seconds, 1e-9))
  return ('{"name":%s,"filename":%s,"saved":%s,"size":%d,"seconds":%.6f}'):format(json_string(part.name),
    part.filename and json_string(part.filename) or "null", saved and json_string(saved) or "null", size, seconds)
end

local function json(status, body)
  return { status = status, headers = { ["Content-Type"] = "application/json" }, body = body .. "\n" }
end

local function handler(request)
  if request.path ~= "/upload" then return json(404, '{"error":"POST a form to /upload"}') end
  if not request.parts then return json(415, '{"error":"multipart/form-data expected"}') end
  progress("%s %s, %s bytes", request.method, request.target, request.length or "unknown")
  local parts = {}
  for part in request.parts do parts[#parts + 1] = take(part) end
  return json(200, '{"parts":[' .. table.concat(parts, ",") .. "]}")
end

if not opts.discard then os.execute(("mkdir -p '%s'"):format(opts.dir:gsub("'", "'\\''"))) end
local server = assert(partline.server.start(handler, { host = opts.host, port = math.tointeger(tonumber(opts.port)) }))
io.stdout:write(("listening on http://%s:%d/upload\n"):format(server.host, server.port))
io.stdout:flush()
server:wait()
