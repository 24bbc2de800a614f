-- partline.client against servers and proxies that others wrote, each started on the loopback: nginx, httpbin under
-- gunicorn, node with busboy, haproxy, tinyproxy, nginx with TLS. Those that are not installed are skipped.

local client = require "partline.client"
local loop = require "partline.loop"
local peers = require "spec.support.peers"

local slow = os.getenv("PARTLINE_UNDER") ~= nil

-- Declares specs with a peer; without it one pending says why. `start` runs when the specs do.
local function with_peer(title, start, declare)
  describe(title, function()
    local box, why = {}, nil
    setup(function()
      box.peer, why = start()
      box.pool = client.pool()
      box.client = client.new { proxy = false, pool = box.pool, head_timeout = 20 }
    end)
    teardown(function()
      box.pool:close()
      if box.peer then box.peer:stop() end
    end)
    -- luacheck: ignore 431
    local function it_with(name, f)
      it(name, function()
        if not box.peer then return pending(why) end
        f(box.client, box.peer.url, box)
      end)
    end
    declare(it_with)
  end)
end

-- The same test blocking and inside the loop.
local function both(f)
  return function(...)
    f(...)
    loop.run(f, ...)
  end
end

local function sha256(path)
  local pipe = assert(io.popen("sha256sum " .. path))
  local sum = pipe:read(64)
  pipe:close()
  return sum
end

-- ---- nginx ----

local NGINX = [[
server {
  listen 127.0.0.1:PORT; listen 127.0.0.1:PORT2; root DIR/root; keepalive_requests 1000;
  gzip on; gzip_types text/plain; gzip_min_length 100; gzip_proxied any;
  location = /empty { return 204; }
  location = /connection { default_type text/plain; return 200 "$connection"; }
  location = /once { keepalive_timeout 0; return 200 "$connection"; }
  location = /moved { return 301 /hello.txt; }
  location = /other { return 302 http://127.0.0.1:PORT2/who; }
  location = /who { return 200 "$server_port $http_authorization $http_cookie"; }
  location = /loop { return 302 /loop; }
  location = /method { return 200 "$request_method"; }
  location = /expect { client_max_body_size 1k; proxy_pass http://127.0.0.1:PORT2/method; }
  location /proxied/ { proxy_pass http://127.0.0.1:PORT2/; }
  location = /upload { proxy_pass http://127.0.0.1:PORT2/method; proxy_request_buffering on; }
}
]]

local BIG = 20 * 1024 * 1024

with_peer("nginx:", function()
  return peers.nginx(NGINX, {
    ["hello.txt"] = "hello\n", ["long.txt"] = ("0123456789\n"):rep(10000), ["big.bin"] = ("\0\1\2\3"):rep(BIG // 4),
    ["empty.txt"] = "",
  })
end, function(it)
  it("static files", both(function(c, url)
    local response = assert(c.get(url .. "/hello.txt"))
    assert.equal(200, response.status)
    assert.equal("OK", response.reason_phrase)
    assert.equal("hello\n", response.body)
    assert.equal("text/plain", response.headers["content-type"])
    assert.equal(6, response.length)
    assert.equal("", c.get(url .. "/empty.txt").body)
    assert.equal(404, c.get(url .. "/none").status)
  end))

  it("a connection is used again, and again", both(function(c, url)
    local first = c.get(url .. "/connection").body
    for _ = 1, 20 do assert.equal(first, c.get(url .. "/connection").body) end
    assert.equal(first, c.get(url .. "/once").body)
    assert.are_not.equal(first, c.get(url .. "/connection").body)
  end))

  it("a body that was left is not taken for the next answer", function(c, url)
    local response = assert(c.get(url .. "/big.bin", { as = "stream" }))
    assert.equal("\0\1", response.body:read(2))
    response.body:close()
    assert.equal("hello\n", c.get(url .. "/hello.txt").body)
  end)

  it("204, 304, HEAD and ranges", both(function(c, url)
    local response = assert(c.get(url .. "/empty"))
    assert.equal(204, response.status)
    assert.is_nil(response.body)
    local tag = c.get(url .. "/hello.txt").headers.ETag
    response = assert(c.get(url .. "/hello.txt", { headers = { ["If-None-Match"] = tag } }))
    assert.equal(304, response.status)
    assert.is_nil(response.body)
    response = assert(c.head(url .. "/hello.txt"))
    assert.equal("6", response.headers["Content-Length"])
    assert.is_nil(response.body)
    response = assert(c.get(url .. "/hello.txt", { headers = { Range = "bytes=1-2" } }))
    assert.equal(206, response.status)
    assert.equal("el", response.body)
    assert.equal("hello\n", c.get(url .. "/hello.txt").body)
  end))

  it("redirects, without credentials to another port", both(function(c, url, box)
    local response = assert(c.get(url .. "/moved"))
    assert.equal("hello\n", response.body)
    assert.same({ url .. "/hello.txt" }, response.trace_redirects)
    local secret = { Authorization = "Bearer x", Cookie = "a=b" }
    assert.equal(box.peer.port .. " Bearer x a=b", c.get(url .. "/who", { headers = secret }).body)
    assert.equal(box.peer.port2 .. "  ", c.get(url .. "/other", { headers = secret }).body)
    assert.equal("too-many-redirects", select(3, c.get(url .. "/loop")))
  end))

  it("chunks and gzip", both(function(c, url)
    local text = ("0123456789\n"):rep(10000)
    local response = assert(c.get(url .. "/long.txt"))
    assert.equal(text, response.body)
    if pcall(require, "zlib") then
      assert.equal("gzip", response.headers["Content-Encoding"])
      assert.equal("chunked", response.headers["Transfer-Encoding"])
    end
    assert.equal(text, c.get(url .. "/long.txt", { headers = { ["Accept-Encoding"] = "identity" } }).body)
    local n = 0
    for line in c.get(url .. "/long.txt", { as = "stream" }).body:lines() do
      assert.equal("0123456789", line)
      n = n + 1
    end
    assert.equal(10000, n)
  end))

  it("through its own proxying", both(function(c, url)
    assert.equal("hello\n", c.get(url .. "/proxied/hello.txt").body)
    assert.equal("POST", c.post(url .. "/upload", { body = ("x"):rep(100000) }).body)
    local i = 0
    assert.equal("PUT", c.put(url .. "/upload", { body = function() i = i + 1 return i < 100 and "piece"
      or nil end }).body)
  end))

  it("large files, to disk and in memory", function(c, url)
    local dir = peers.directory()
    local response = assert(c.get(url .. "/big.bin", { as = "stream" }))
    assert.equal(BIG, response.length)
    assert.equal(BIG, response.body:save(dir .. "/big"))
    assert.equal(BIG, #peers.read(dir .. "/big"))
    assert.equal(BIG, #c.get(url .. "/big.bin").body)
    peers.remove(dir)
  end)

  it("a large body that is not wanted is not sent", both(function(c, url)
    local sent = 0
    local function body()
      sent = sent + 1
      return sent <= 300 and ("x"):rep(65536) or nil
    end
    local response = assert(c.put(url .. "/expect", { body = body, expect = true, headers = {
      ["Content-Length"] = 300 * 65536 } }))
    assert.equal(413, response.status)
    assert.equal(0, sent)
    response = assert(c.put(url .. "/expect", { body = ("x"):rep(5000000), expect = false }))
    assert.equal(413, response.status)
  end))

  it("many requests at once", function(c, url)
    loop.run(function()
      local done = 0
      for _ = 1, 100 do
        loop.spawn(function()
          for _ = 1, 5 do assert.equal("hello\n", c.get(url .. "/hello.txt").body) end
          done = done + 1
        end)
      end
      while done < 100 do loop.sleep(0.01) end
    end)
  end)
end)

-- ---- httpbin ----

with_peer("httpbin:", peers.httpbin, function(it)
  it("methods", both(function(c, url)
    for _, method in ipairs { "get", "post", "put", "delete", "patch" } do
      local response = assert(c[method](url .. "/" .. method, { as = "json", query_params = { a = "1" },
        body = method ~= "get" and "foo" or nil }))
      assert.equal(200, response.status)
      assert.equal("1", response.body.args.a)
      if method ~= "get" then assert.equal("foo", response.body.data) end
    end
    assert.equal(200, c.head(url .. "/get").status)
    assert.is_truthy(c.options(url .. "/get").headers.Allow:find("GET"))
  end))

  it("query parameters", both(function(c, url)
    assert.same({ a = "1", b = "2" }, c.post(url .. "/post", { query_params = { a = "1", b = "2" },
      as = "json" }).body.args)
    assert.same({ a = { "1", "2" }, c = "3" },
      c.post(url .. "/post?a=1", { query_params = { a = "2", c = "3" }, as = "json" }).body.args)
    assert.same({ a = { "1", "2", "3" } }, c.post(url .. "/post?a=1", { query_params = { a = { "2", "3" } },
      as = "json" }).body.args)
  end))

  it("forms, files and JSON", both(function(c, url)
    local body = c.post(url .. "/post", { form = { a = "1 2", b = { "x", "y" } }, as = "json" }).body
    assert.same({ a = "1 2", b = { "x", "y" } }, body.form)
    body = c.post(url .. "/post", { multipart = {
      { name = "foo", content = "bar" }, { name = "baz", content = "qux", filename = "baz.txt" },
    }, as = "json" }).body
    assert.same({ foo = "bar" }, body.form)
    assert.same({ baz = "qux" }, body.files)
    body = c.post(url .. "/post", { body = { list = { 1, 2 } }, as = "json" }).body
    assert.same({ list = { 1, 2 } }, body.json)
  end))

  it("redirects", both(function(c, url)
    local response = assert(c.get(url .. "/absolute-redirect/3"))
    assert.same({ url .. "/absolute-redirect/2", url .. "/absolute-redirect/1", url .. "/get" },
      response.trace_redirects)
    response = assert(c.get(url .. "/relative-redirect/3"))
    assert.same({ url .. "/relative-redirect/2", url .. "/relative-redirect/1", url .. "/get" },
      response.trace_redirects)
    local function go(status, to)
      return c.post(url .. "/redirect-to", { query_params = { url = url .. to, status_code = status }, body = "foo",
        as = "json" })
    end
    assert.equal("foo", go(307, "/post").body.data)
    assert.equal("foo", go(308, "/post").body.data)
    assert.equal(url .. "/get", go(301, "/get").body.url)
    response = c.get(url .. "/redirect-to", { query_params = { url = url .. "/get", status_code = 303 },
      follow_redirects = false })
    assert.equal(303, response.status)
    assert.equal(url .. "/get", response.headers.Location)
    assert.equal("too-many-redirects", select(3, c.get(url .. "/absolute-redirect/2", { max_redirects = 1 })))
  end))

  it("cookies by hand", both(function(c, url)
    local response = assert(c.get(url .. "/cookies/set?a=1&b=2", { follow_redirects = false }))
    local jar = {}
    for i, cookie in ipairs(response.headers["Set-Cookie"]) do jar[i] = cookie:match("^[^;]+") end
    local cookies = c.get(url .. "/cookies", { headers = { Cookie = table.concat(jar, "; ") },
      as = "json" }).body.cookies
    assert.same({ a = "1", b = "2" }, cookies)
  end))

  it("authorization", both(function(c, url)
    assert.equal(401, c.get(url .. "/basic-auth/u/p").status)
    local with_user = url:gsub("//", "//u:p@")
    assert.equal(200, c.get(with_user .. "/basic-auth/u/p").status)
  end))

  it("streams", both(function(c, url)
    local n = 0
    for line in c.get(url .. "/stream/100", { as = "stream" }).body:lines() do
      assert.is_truthy(line:find('"id": ?' .. n .. "[,}]"))
      n = n + 1
    end
    assert.equal(100, n)
    assert.equal(0, c.get(url .. "/stream/3", { as = "json" }).body.id)
    assert.equal(40000, #c.get(url .. "/stream-bytes/40000").body)
    assert.equal(40000, #c.get(url .. "/bytes/40000").body)
  end))

  it("one body read by several tasks", function(c, url)
    loop.run(function()
      for _, path in ipairs { "/bytes/40000", "/stream-bytes/40000" } do
        local body = assert(c.get(url .. path, { as = "stream", headers = { connection = "close" } })).body
        local done, bytes = 0, 0
        for _ = 1, 4 do
          loop.spawn(function()
            for _ = 1, 10 do
              local piece = assert(body:read(1000))
              bytes = bytes + #piece
            end
            done = done + 1
          end)
        end
        while done < 4 do loop.sleep(0.005) end
        assert.equal(40000, bytes)
        assert.is_nil(body:read(1))
      end
    end)
  end)

  it("delays and drips", function(c, url)
    local response = assert(c.get(url .. "/drip", { query_params = { duration = 1, numbytes = 10, code = 200,
      delay = 0 } }))
    assert.equal("**********", response.body)
    assert.equal("timeout", select(3, c.get(url .. "/delay/3", { timeout = 0.2 })))
    assert.equal("timeout", select(3, c.get(url .. "/delay/3", { head_timeout = 0.2 })))
  end)

  it("gzip and deflate", both(function(c, url)
    if not pcall(require, "zlib") then return pending("lua-zlib is not installed") end
    assert.is_true(c.get(url .. "/gzip", { as = "json" }).body.gzipped)
    assert.is_true(c.get(url .. "/deflate", { as = "json" }).body.deflated)
  end))

  it("every status, as a value and as an error", function(c, url)
    for _, status in ipairs { 200, 202, 400, 401, 404, 409, 415, 418, 429, 451, 500, 502, 503, 504 } do
      for _, method in ipairs { "get", "post", "put", "patch", "delete" } do
        assert.equal(status, c[method](url .. "/status/" .. status).status)
      end
      local ok, err = pcall(c.get, url .. "/status/" .. status, { throw_errors = true })
      assert.equal(status < 400, ok)
      if not ok then assert.equal(status, err.status) end
    end
  end)

  it("asynchronous requests", function(c, url)
    loop.run(function()
      local responses, errors = {}, {}
      local function on_response(r) responses[#responses + 1] = r.status end
      local function on_raise(e) errors[#errors + 1] = e.status end
      for _, status in ipairs { 200, 404, 500 } do
        c.get(url .. "/status/" .. status, { ["async?"] = true, ["throw-errors?"] = true }, on_response, on_raise)
        c.get(url .. "/status/" .. status, { async = true }, on_response, on_raise)
      end
      while #responses + #errors < 6 do loop.sleep(0.01) end
      table.sort(responses)
      table.sort(errors)
      assert.same({ 200, 200, 404, 500 }, responses)
      assert.same({ 404, 500 }, errors)
    end)
  end)
end)

-- ---- haproxy before it ----

with_peer("haproxy before nginx:", function()
  local nginx, why = peers.nginx(NGINX, { ["hello.txt"] = "hello\n" })
  if not nginx then return nil, why end
  local haproxy
  haproxy, why = peers.haproxy(nginx.port)
  if not haproxy then nginx:stop() return nil, why end
  local stop = haproxy.stop
  haproxy.stop = function(self) stop(self) nginx:stop() end
  return haproxy
end, function(it)
  it("requests and bodies pass", both(function(c, url)
    for _ = 1, 5 do assert.equal("hello\n", c.get(url .. "/hello.txt").body) end
    assert.equal("POST", c.post(url .. "/upload", { body = ("x"):rep(2000000) }).body)
    local i = 0
    assert.equal("POST", c.post(url .. "/upload", { body = function() i = i + 1 return i < 50 and ("y"):rep(i)
      or nil end }).body)
    assert.equal(204, c.get(url .. "/empty").status)
    assert.equal(200, c.head(url .. "/hello.txt").status)
    assert.equal(1, c.get(url .. "/hello.txt", { as = "stream" }).http_client and 1)
  end))
end)

-- ---- busboy ----

with_peer("node with busboy:", peers.busboy, function(it)
  local names = { "plain",
    'quote"s', "back\\slash", "line\r\nbreak", "percent%22", "ünïcödé ☃", "", "semi;colon", "a=b", " spaces " }

  -- busboy undoes \" and nothing else: what browsers escape stays escaped.
  local function escaped(name)
    return (name:gsub('"', "%%22"):gsub("\r", "%%0D"):gsub("\n", "%%0A"))
  end

  it("names and values arrive as they are", both(function(c, url)
    local parts = {}
    for i, name in ipairs(names) do
      parts[#parts + 1] = { name = "f" .. name, content = "value of " .. name }
      parts[#parts + 1] = { name = "file" .. i, filename = "x" .. name, content = "content " .. i,
        mime_type = "text/x-" .. i }
    end
    local got = assert(c.post(url, { multipart = parts, as = "json" })).body
    assert.equal(#names, #got.fields)
    assert.equal(#names, #got.files)
    for i, name in ipairs(names) do
      if not name:find("\\") then -- busboy takes a backslash for an escape, browsers do not
        assert.same({ "f" .. escaped(name), "value of " .. name }, got.fields[i])
        assert.equal("x" .. escaped(name), got.files[i].filename)
      end
      assert.equal("text/x-" .. i, got.files[i].mime)
      assert.equal(#("content " .. i), got.files[i].size)
    end
    assert.is_truthy(tonumber(got.headers["content-length"]))
  end))

  it("filename* too", both(function(c, url)
    local got = c.post(url, { multipart = {
      { name = "f", filename = "fallback", ["filename*"] = "☃ 'snow'.txt", content = "x" },
    }, as = "json" }).body
    assert.equal("☃ 'snow'.txt", got.files[1].filename)
  end))

  it("empty forms, empty parts, many parts", both(function(c, url)
    assert.same({}, c.post(url, { multipart = {}, as = "json" }).body.fields)
    local parts = {}
    for i = 1, 300 do parts[i] = { name = "n" .. i, content = i % 2 == 0 and "" or ("v"):rep(i) } end
    local got = c.post(url, { multipart = parts, as = "json" }).body
    assert.equal(300, #got.fields)
    for i = 1, 300 do assert.same({ "n" .. i, i % 2 == 0 and "" or ("v"):rep(i) }, got.fields[i]) end
  end))

  it("a file of 100 MB, from disk and from a function, by its sha256", function(c, url)
    local size = slow and 2000000 or 100000000
    local dir = peers.directory()
    local path = dir .. "/random"
    assert(os.execute("head -c " .. size .. " /dev/urandom > " .. path))
    local want = sha256(path)
    local file = io.open(path, "rb")
    local got = assert(c.post(url, { multipart = { { name = "f", filename = "r", content = file } },
      as = "json" })).body
    assert.equal(size, got.files[1].size)
    assert.equal(want, got.files[1].sha256)
    assert.is_truthy(tonumber(got.headers["content-length"]) > size)
    file:seek("set", 0)
    got = assert(c.post(url, { multipart = {
      { name = "f", filename = "r", content = function() return file:read(50000) end }, { name = "after",
        content = "1" },
    }, as = "json" })).body
    assert.equal(want, got.files[1].sha256)
    assert.same({ { "after", "1" } }, got.fields)
    assert.equal("chunked", got.headers["transfer-encoding"])
    file:close()
    peers.remove(dir)
  end)

  it("LuaSocket's own client sends our multipart body", function(_, url)
    local http, ltn12 = require "socket.http", require "ltn12"
    local multipart = require "partline.multipart"
    local built = multipart.build {
      { name = "a", content = "1" }, { name = "f", filename = "M", content = io.open("Makefile", "rb") },
    }
    local out = {}
    local _, status = http.request {
      url = url .. "/", method = "POST", source = built.reader:source(), sink = ltn12.sink.table(out),
      headers = { ["content-type"] = built.content_type, ["content-length"] = built.length },
    }
    assert.equal(200, status)
    local got = require("dkjson").decode(table.concat(out))
    assert.same({ { "a", "1" } }, got.fields)
    assert.equal(sha256("Makefile"), got.files[1].sha256)
  end)
end)

-- ---- tinyproxy ----

-- nginx with TLS, its files and certificates; two names of which the second is nobody's here.
local function tls_nginx()
  local dir, why = peers.certificates {
    { "good", "DNS:localhost,DNS:*.example.test,IP:127.0.0.1" }, { "other", "DNS:other.test", 2, "localhost" },
  }
  if not dir then return nil, why end
  local servers = [[
    server {
      listen 127.0.0.1:PORT ssl; root DIR/root; ssl_certificate CERTS/good.pem; ssl_certificate_key CERTS/good.key;
      location = /connection { return 200 "$connection"; } location = /method { return 200 "$request_method"; }
      location = /upload { client_max_body_size 0; proxy_pass https://127.0.0.1:PORT/method; }
      location = /down { return 302 http://127.0.0.1:1/; } }
    server { listen 127.0.0.1:PORT2 ssl; ssl_certificate CERTS/other.pem; ssl_certificate_key CERTS/other.key;
      return 200 "other"; }
  ]]
  local nginx
  nginx, why = peers.nginx(servers:gsub("CERTS", dir), { ["hello.txt"] = "hello\n", ["big.bin"] = ("x"):rep(5000000) })
  if not nginx then peers.remove(dir) return nil, why end
  nginx.certificates = dir
  nginx.url, nginx.url2 = "https://localhost:" .. nginx.port, "https://localhost:" .. nginx.port2
  local stop = nginx.stop
  nginx.stop = function(self) stop(self) peers.remove(dir) end
  return nginx
end

local function needs_luasec()
  if pcall(require, "ssl") then return true end
  return nil, "LuaSec is not installed"
end

with_peer("nginx with TLS:", function()
  local ok, why = needs_luasec()
  if not ok then return nil, why end
  return tls_nginx()
end, function(it)
  local function trusting(box)
    return client.new { proxy = false, pool = box.pool, tls = { cafile = box.peer.certificates .. "/ca.pem" } }
  end

  it("is verified by default, and refused", both(function(c, url)
    local response, text, code = c.get(url .. "/hello.txt")
    assert.is_nil(response)
    assert.equal("tls-failed", code)
    assert.is_truthy(text:find("verify"), text)
  end))

  it("is trusted with its authority's certificate", both(function(_, url, box)
    local c = trusting(box)
    assert.equal("hello\n", c.get(url .. "/hello.txt").body)
    assert.equal("hello\n", c.get(url:gsub("localhost", "127.0.0.1") .. "/hello.txt").body)
    local first = c.get(url .. "/connection").body
    for _ = 1, 10 do assert.equal(first, c.get(url .. "/connection").body) end
    assert.equal(5000000, #c.get(url .. "/big.bin").body)
    assert.equal(204 - 4, c.head(url .. "/hello.txt").status)
  end))

  it("must have the name that was asked for", both(function(_, _, box)
    local c = trusting(box)
    local response, text, code = c.get(box.peer.url2)
    assert.is_nil(response)
    assert.equal("tls-failed", code)
    assert.is_truthy(text:find("not for localhost"), text) -- although its common name is localhost
    local ca = box.peer.certificates .. "/ca.pem"
    assert.equal("other", c.get(box.peer.url2, { tls = { cafile = ca, server_name = "other.test" } }).body)
    assert.equal("hello\n", c.get(box.peer.url .. "/hello.txt", { tls = { cafile = ca,
      server_name = "a.example.test" } }).body)
    assert.equal("tls-failed",
      select(3, c.get(box.peer.url .. "/hello.txt", { tls = { cafile = ca, server_name = "a.b.example.test" } })))
  end))

  it("is not verified when it is told so; such connections are not shared", both(function(c, _, box)
    assert.equal("other", c.get(box.peer.url2, { tls = { verify = false } }).body)
    assert.equal("tls-failed", select(3, c.get(box.peer.url2)))
    assert.equal("tls-failed", select(3, trusting(box).get(box.peer.url2)))
  end))

  it("takes uploads, also those that wait for 100 Continue", both(function(_, url, box)
    local c = trusting(box)
    local before = loop.now()
    assert.equal("PUT", c.put(url .. "/upload", { body = ("x"):rep(3000000) }).body)
    assert.is_true(loop.now() - before < 5)
    local i = 0
    assert.equal("PUT", c.put(url .. "/upload", { body = function() i = i + 1 return i < 100 and ("y"):rep(1000)
      or nil end }).body)
  end))

  it("is not waited for when it does not say 100 Continue", function(_, _, box)
    local server = assert(peers.lua_server([[
      local socket, ssl = require "socket", require "ssl"
      local listener = assert(socket.bind("127.0.0.1", arg[1]))
      while true do
        local s = listener:accept()
        s:settimeout(5)
        s = ssl.wrap(s, { mode = "server", protocol = "any", certificate = arg[2] .. "/good.pem", key = arg[2]
          .. "/good.key" })
        if s:dohandshake() then
          local line, length
          repeat
            line = s:receive("*l")
            length = line and line:match("^Content%-Length: (%d+)") or length
          until not line or line == ""
          local body = length and s:receive(tonumber(length)) or ""
          s:send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " .. #tostring(#body) .. "\r\n\r\n" .. #body)
        end
        s:close()
      end
    ]], box.peer.certificates))
    local before = loop.now()
    local response = assert(trusting(box).put("https://localhost:" .. server.port, {
      body = ("x"):rep(1500000), continue_timeout = 0.2,
    }))
    assert.equal("1500000", response.body)
    assert.is_true(loop.now() - before >= 0.2)
    server:stop()
  end)

  it("times out like any other", both(function(_, _, box)
    local listener = assert(require("partline.transport.luasocket").listen { host = "127.0.0.1" })
    local _, port = listener:getsockname()
    local response, _, code = trusting(box).get("https://localhost:" .. port, { connect_timeout = 0.1 })
    assert.is_nil(response)
    assert.equal("timeout", code)
    listener:close()
  end))

  it("is not spoken to a plain server", both(function(_, url, box)
    assert.equal(400, client.get(url:gsub("https", "http"), { proxy = false, pool = box.pool }).status)
    local other = peers.nginx(NGINX)
    assert.equal("tls-failed", select(3, trusting(box).get((other.url:gsub("http", "https")))))
    other:stop()
  end))
end)

with_peer("tinyproxy:", function()
  local nginx, why = peers.nginx(NGINX, { ["hello.txt"] = "hello\n" })
  if not nginx then return nil, why end
  local proxy
  proxy, why = peers.tinyproxy()
  if not proxy then nginx:stop() return nil, why end
  local tls = needs_luasec() and tls_nginx()
  local locked = peers.tinyproxy("BasicAuth user pass")
  local self = { url = nginx.url, nginx = nginx, proxy = proxy, tls = tls, locked = locked }
  function self.stop()
    nginx:stop()
    proxy:stop()
    locked:stop()
    if tls then tls:stop() end
  end
  return self
end, function(it)
  local function asked(proxy, what)
    local log = peers.read(proxy.dir .. "/proxy.log") or ""
    return select(2, log:gsub(what, ""))
  end

  it("plain requests go through it in absolute form", both(function(c, url, box)
    local before = asked(box.peer.proxy, "GET http://127")
    local response = assert(c.get(url .. "/hello.txt?a=b", { proxy = box.peer.proxy.url }))
    assert.equal("hello\n", response.body)
    assert.is_truthy(response.headers.Via)
    assert.equal("hello\n", c.get(url .. "/moved", { proxy = "127.0.0.1:" .. box.peer.proxy.port }).body)
    assert.is_true(asked(box.peer.proxy, "GET http://127") > before)
    local i = 0
    assert.equal("POST", c.post(url .. "/upload", {
      proxy = box.peer.proxy.url, body = function() i = i + 1 return i < 5 and "x" or nil end,
    }).body)
  end))

  it("https goes through a tunnel, verified", both(function(c, _, box)
    local tls = box.peer.tls
    if not tls then return pending("LuaSec is not installed") end
    local opts = { proxy = box.peer.proxy.url, tls = { cafile = tls.certificates .. "/ca.pem" } }
    local before = asked(box.peer.proxy, "CONNECT localhost")
    local first = c.get(tls.url .. "/connection", opts).body
    assert.is_truthy(first:find("^%d+$"))
    assert.equal(first, c.get(tls.url .. "/connection", opts).body)
    assert.equal("hello\n", c.get(tls.url .. "/hello.txt", opts).body)
    assert.is_true(asked(box.peer.proxy, "CONNECT localhost") - before <= 1) -- none when an earlier one is kept
    assert.equal("tls-failed", select(3, c.get(tls.url2, opts)))
    assert.equal("tls-failed", select(3, c.get(tls.url, { proxy = box.peer.proxy.url })))
  end))

  it("its refusals are told", both(function(c, url, box)
    local response = assert(c.get(url, { proxy = box.peer.locked.url }))
    assert.equal(407, response.status)
    if box.peer.tls then
      local none, text, code = c.get(box.peer.tls.url, { proxy = box.peer.locked.url })
      assert.is_nil(none)
      assert.equal("proxy-refused", code)
      assert.is_truthy(text:find("407"), text)
    end
    assert.equal("refused", select(3, c.get(url, { proxy = "http://127.0.0.1:1" })))
  end))

  it("credentials for it may be a header, which the origin does not see", both(function(c, url, box)
    local basic = require("partline.client.proxy").basic("user:pass")
    local headers = { ["Proxy-Authorization"] = basic }
    assert.equal("hello\n", c.get(url .. "/hello.txt", { proxy = box.peer.locked.url, headers = headers }).body)
    local tls = box.peer.tls
    if tls then
      local opts = { proxy = box.peer.locked.url, headers = headers, tls = { cafile = tls.certificates .. "/ca.pem" } }
      assert.equal("hello\n", c.get(tls.url .. "/hello.txt", opts).body)
    end
  end))

  it("credentials for it are taken from its URL", both(function(c, url, box)
    local with_user = box.peer.locked.url:gsub("//", "//user:pass@")
    assert.equal("hello\n", c.get(url .. "/hello.txt", { proxy = with_user }).body)
    local tls = box.peer.tls
    if tls then
      local opts = { proxy = with_user, tls = { cafile = tls.certificates .. "/ca.pem" } }
      assert.equal("hello\n", c.get(tls.url .. "/hello.txt", opts).body)
    end
  end))

  it("the environment chooses it", function(_, url, box)
    local program = [[
      local client = require "partline.client"
      local response, message = client.get(arg[1], { tls = arg[2] and { cafile = arg[2] } })
      io.write(response and response.status .. " " .. tostring(response.headers.Via ~= nil) or message)
    ]]
    local proxy = box.peer.proxy.url
    assert.equal("200 true", (peers.lua({ http_proxy = proxy }, program, url .. "/hello.txt")))
    assert.equal("200 true", (peers.lua({ all_proxy = proxy }, program, url .. "/hello.txt")))
    assert.equal("200 false", (peers.lua({ http_proxy = proxy, no_proxy = "127.0.0.1" }, program, url .. "/hello.txt")))
    assert.equal("200 false", (peers.lua({ HTTP_PROXY = proxy }, program, url .. "/hello.txt")))
    assert.equal("200 false", (peers.lua({ https_proxy = proxy }, program, url .. "/hello.txt")))
    local tls = box.peer.tls
    if tls then
      local before = asked(box.peer.proxy, "CONNECT localhost")
      assert.equal("200 false",
        (peers.lua({ https_proxy = proxy }, program, tls.url .. "/hello.txt", tls.certificates .. "/ca.pem")))
      assert.equal(before + 1, asked(box.peer.proxy, "CONNECT localhost"))
    end
  end)
end)
