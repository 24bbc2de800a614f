--- TLS as a client wants it: the peer is verified, and its certificate must name the host (RFC 9110 4.3.4, RFC 6125).
-- LuaSec does the first when told and never the second.
-- @module partline.client.tls

local options = require("partline.options")

local tls = {}

-- Where systems keep the authorities they trust.
local bundles = {
  "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem", "/usr/local/share/certs/ca-root-nss.crt", "/usr/local/etc/openssl@3/cert.pem",
  "/opt/homebrew/etc/openssl@3/cert.pem",
}

local function readable(path)
  local file = path and io.open(path, "rb")
  if file then file:close() end
  return file and path
end

local system -- found once

local function system_bundle()
  if system == nil then
    system = readable(os.getenv("SSL_CERT_FILE")) or false
    for _, path in ipairs(bundles) do system = system or readable(path) or false end
  end
  return system
end

--- What LuaSec's wrap takes, of the `tls` option: `verify` (true), `cafile`, `capath`, `certificate`, `key`,
-- `password`, `protocol`, `ciphers`, `ciphersuites`, `alpn`, `server_name`.
---@param given table?
---@param host string without brackets
---@return table
function tls.params(given, host)
  local out = options.read(given)
  local verify = out.verify
  out.mode = "client"
  out.protocol = out.protocol or "any"
  out.options = out.options or { "all", "no_sslv2", "no_sslv3", "no_tlsv1", "no_tlsv1_1" }
  if verify == false then
    out.verify = "none"
  elseif type(verify) ~= "table" and type(verify) ~= "string" then
    out.verify = { "peer", "fail_if_no_peer_cert" }
  end
  if verify ~= false and not out.cafile and not out.capath then
    out.cafile = system_bundle() or nil
    out.capath = os.getenv("SSL_CERT_DIR")
  end
  local is_address = host:find("^[%d.]+$") or host:find(":", 1, true)
  out.server_name = out.server_name or not is_address and host or nil -- SNI is for names (RFC 6066 3)
  return out
end

-- One name of a certificate against the host: "*" stands for the whole first label, no more (RFC 6125 6.4.3).
local function name_matches(pattern, host)
  pattern, host = pattern:lower():gsub("%.$", ""), host:lower():gsub("%.$", "")
  if pattern == host then return true end
  local rest = pattern:match("^%*(%.[^*]+%.[^*]+)$")
  local first, tail = host:match("^([^.]+)(%..+)$")
  return rest ~= nil and first ~= nil and tail == rest
end

-- Addresses are compared as numbers are written by inet_ntop; an IPv6 one may be written otherwise.
local function address_matches(listed, host)
  return listed:lower() == host:lower()
end

local SUBJECT_ALT_NAME = "2.5.29.17"

--- Whether a certificate's subjectAltName has the host; its common name does not count.
---@param cert table LuaSec's
---@param host string without brackets
---@return boolean
function tls.names(cert, host)
  local names = cert:extensions()[SUBJECT_ALT_NAME] or {}
  local is_address = host:find("^%d+%.%d+%.%d+%.%d+$") or host:find(":", 1, true)
  local list, match = names.dNSName, name_matches
  if is_address then list, match = names.iPAddress, address_matches end
  for _, listed in ipairs(list or {}) do
    if match(listed, host) then return true end
  end
  return false
end

--- Makes a transport's connection TLS and checks whom it leads to. → conn | nil, message, code. May yield.
---@param conn table
---@param given table? the `tls` option
---@param host string without brackets
---@param deadline number?
function tls.start(conn, given, host, deadline)
  local params = tls.params(given, host)
  local ok, message, code = conn:starttls(params, deadline)
  if not ok then return nil, message, code end
  if params.verify == "none" then return conn end
  local wanted = given and given.server_name or host
  local cert = conn.sock:getpeercertificate()
  if cert and tls.names(cert, wanted) then return conn end
  return nil, "certificate is not for " .. wanted, "tls-failed"
end

return tls
