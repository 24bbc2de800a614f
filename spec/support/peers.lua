--- Servers and programs that specs talk to, each on a free port of the loopback, stopped with the spec or with us.
--
--     local nginx = peers.nginx(config)      -- or nil, reason
--     ... nginx.url .. "/path" ...
--     nginx:stop()

local socket = require "socket"
local files = require "spec.support.files"

local peers = { read = files.read, write = files.write }

local Peer = {}
Peer.__index = Peer

local LUA = os.getenv("LUA") or "lua5.4"

-- ---- what is there ----

local function succeeds(command)
  return os.execute(command .. " >/dev/null 2>&1") == true
end

--- The path of a program, also where only root looks for it; nil, reason.
function peers.find(program)
  local pipe = assert(io.popen("PATH=$PATH:/usr/sbin:/usr/local/sbin command -v " .. program .. " 2>/dev/null"))
  local path = pipe:read("l")
  pipe:close()
  if path and path ~= "" then return path end
  return nil, program .. " is not installed"
end

function peers.free_port()
  local s = assert(socket.bind("127.0.0.1", 0))
  local _, port = s:getsockname()
  s:close()
  return math.tointeger(tonumber(port))
end

-- ---- directories ----

--- A new directory, removed by `peers.remove`.
function peers.directory()
  local path = os.tmpname()
  os.remove(path)
  assert(succeeds("mkdir -m 755 " .. path))
  return path
end

function peers.remove(dir)
  assert(dir:find("^/tmp/lua_"), "not a directory of ours")
  succeeds("rm -rf " .. dir)
end

-- ---- running ----

-- The shell lives as long as its input is open: when we are gone, whatever the reason, the program goes too.
local RUN = [[exec >%s 2>&1; %s & pid=$!; trap '' INT; cat >/dev/null; kill $pid; sleep 0.1; kill -9 $pid; wait $pid]]

local function answers(port)
  local s = socket.tcp4()
  s:settimeout(0.2)
  local ok = s:connect("127.0.0.1", port)
  s:close()
  return ok ~= nil
end

--- Starts a command and waits until its port answers. → peer | nil, reason
function peers.start(command, port, dir)
  local log = dir .. "/log"
  local self = setmetatable({ port = port, dir = dir, url = "http://127.0.0.1:" .. port }, Peer)
  self.pipe = assert(io.popen(RUN:format(log, command), "w"))
  for _ = 1, 300 do
    if answers(port) then return self end
    socket.sleep(0.05)
  end
  local said = peers.read(log)
  self:stop()
  return nil, "did not start: " .. command .. "\n" .. (said or "")
end

function Peer:stop()
  if not self.pipe then return end
  self.pipe:close()
  self.pipe = nil
  peers.remove(self.dir)
end

-- ---- nginx ----

local NGINX = [[
daemon off; master_process off; pid DIR/pid; error_log DIR/error.log; USER
events { worker_connections 256; }
http {
  access_log off; default_type application/octet-stream; types { text/plain txt; text/html html; }
  client_body_temp_path DIR/b; proxy_temp_path DIR/p;
  fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  client_max_body_size 0;
SERVERS
}
]]

--- `servers`: the server blocks; PORT, PORT2 and DIR are replaced. `root`: path → bytes below DIR/root.
function peers.nginx(servers, root)
  local path, why = peers.find("nginx")
  if not path then return nil, why end
  local dir, port, port2 = peers.directory(), peers.free_port(), peers.free_port()
  succeeds("mkdir " .. dir .. "/root")
  for name, bytes in pairs(root or {}) do peers.write(dir .. "/root/" .. name, bytes) end
  local user = succeeds("test $(id -u) = 0") and "user root;" or ""
  local values = { SERVERS = servers, USER = user }
  local config = NGINX:gsub("%u+", values):gsub("%f[%w]PORT2%f[%W]", port2):gsub("%f[%w]PORT%f[%W]", port):gsub("DIR",
    dir)
  peers.write(dir .. "/conf", config)
  local self
  self, why = peers.start(path .. " -p " .. dir .. " -c " .. dir .. "/conf", port, dir)
  if self then self.port2, self.url2 = port2, "http://127.0.0.1:" .. port2 end
  return self, why
end

-- ---- httpbin ----

function peers.httpbin()
  local path, why = peers.find("gunicorn")
  if not path then return nil, why end
  if not succeeds("/usr/bin/python3 -c 'import httpbin'") then return nil, "python3-httpbin is not installed" end
  local dir, port = peers.directory(), peers.free_port()
  local options = " -k gthread --threads 8 --keep-alive 5 --worker-tmp-dir /tmp"
  return peers.start("exec " .. path .. options .. " -b 127.0.0.1:" .. port .. " httpbin:app", port, dir)
end

-- ---- haproxy and tinyproxy ----

function peers.haproxy(backend_port)
  local path, why = peers.find("haproxy")
  if not path then return nil, why end
  local dir, port = peers.directory(), peers.free_port()
  peers.write(dir .. "/conf", ([[
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:%d
  default_backend b
backend b
  http-reuse always
  server s 127.0.0.1:%d
]]):format(port, backend_port))
  return peers.start("exec " .. path .. " -f " .. dir .. "/conf", port, dir)
end

--- `users`: lines such as "BasicAuth user password".
function peers.tinyproxy(users)
  local path, why = peers.find("tinyproxy")
  if not path then return nil, why end
  local dir, port = peers.directory(), peers.free_port()
  peers.write(dir .. "/conf", ([[
Port %d
Listen 127.0.0.1
Timeout 20
Allow 127.0.0.1
MaxClients 50
LogFile "%s/proxy.log"
LogLevel Info
%s
]]):format(port, dir, users or ""))
  return peers.start("exec " .. path .. " -d -c " .. dir .. "/conf", port, dir)
end

-- ---- node with busboy ----

local NODE_SERVER = [[
const http = require('http'), crypto = require('crypto'), busboy = require('busboy');
http.createServer((req, res) => {
  const out = { headers: req.headers, fields: [], files: [] };
  const done = () => { const s = JSON.stringify(out); res.writeHead(200, {
    'content-type': 'application/json' }); res.end(s); };
  let bb;
  try { bb = busboy({ headers: req.headers, defParamCharset: 'utf8', preservePath: true }); }
  catch (e) { res.writeHead(400); return res.end(String(e)); }
  bb.on('field', (name, value) => out.fields.push([name, value]));
  bb.on('file', (name, stream, info) => {
    const hash = crypto.createHash('sha256'); let size = 0;
    stream.on('data', d => { hash.update(d); size += d.length; });
    stream.on('close', () => out.files.push({ name, filename: info.filename, mime: info.mimeType, size,
      sha256: hash.digest('hex') }));
  });
  bb.on('close', done);
  bb.on('error', e => { out.error = String(e); done(); });
  req.pipe(bb);
}).listen(+process.argv[2], '127.0.0.1');
]]

local MODULES = "NODE_PATH=build/node/node_modules:/usr/share/nodejs"

-- Debian has busboy; elsewhere npm puts it into build/node, once.
local function busboy()
  local function there() return succeeds(MODULES .. [[ node -e 'require("busboy")']]) end
  if there() then return true end
  local npm, why = peers.find("npm")
  if not npm then return nil, why end
  succeeds("mkdir -p build/node && cd build/node && timeout 60 npm install --no-audit --no-fund --prefix . busboy")
  if there() then return true end
  return nil, "npm cannot install busboy"
end

function peers.busboy()
  local path, why = peers.find("node")
  if not path then return nil, why end
  local ok
  ok, why = busboy()
  if not ok then return nil, why end
  local dir, port = peers.directory(), peers.free_port()
  peers.write(dir .. "/server.js", NODE_SERVER)
  return peers.start(MODULES .. " exec " .. path .. " " .. dir .. "/server.js " .. port, port,
    dir)
end

-- ---- certificates ----

--- A directory with ca.pem and, for each { name, subjectAltName, days }, NAME.pem and NAME.key signed by it.
function peers.certificates(list)
  local path, why = peers.find("openssl")
  if not path then return nil, why end
  local dir = peers.directory()
  local key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
  local script = { "cd " .. dir,
    ([[%s req -x509 %s -keyout ca.key -out ca.pem -days 2 -subj "/CN=test authority"]]):format(path, key) }
  for _, cert in ipairs(list) do
    script[#script + 1] = ([[%s req %s -keyout %s.key -out %s.csr -subj "/CN=%s"]]):format(path, key, cert[1], cert[1],
      cert[4] or cert[1])
    script[#script + 1] = ([[echo "subjectAltName=%s" > %s.ext]]):format(cert[2], cert[1])
    local sign = "%s x509 -req -in %s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days %d -extfile %s.ext -out %s.pem"
    script[#script + 1] = sign:format(path, cert[1], cert[3] or 2, cert[1], cert[1])
  end
  if succeeds("(" .. table.concat(script, " && ") .. ")") then return dir end
  peers.remove(dir)
  return nil, "openssl made no certificates"
end

-- ---- Lua ----

--- Runs a Lua program with variables of the environment and arguments; → what it printed, whether it succeeded.
function peers.lua(env, program, ...)
  local dir = peers.directory()
  local path = peers.write(dir .. "/program.lua", program)
  local words = {}
  for name, value in pairs(env) do words[#words + 1] = name .. "='" .. value .. "'" end
  table.move({ LUA, path, ... }, 1, 2 + select("#", ...), #words + 1, words)
  local pipe = assert(io.popen("env " .. table.concat(words, " ") .. " 2>&1"))
  local said = pipe:read("a")
  local ok = pipe:close()
  peers.remove(dir)
  return said, ok
end

--- Starts a Lua program that serves on the port given as its first argument.
function peers.lua_server(program, ...)
  local dir, port = peers.directory(), peers.free_port()
  local path = peers.write(dir .. "/server.lua", program)
  local arguments = table.concat({ port, ... }, " ")
  return peers.start("exec " .. LUA .. " " .. path .. " " .. arguments, port, dir)
end

return peers
