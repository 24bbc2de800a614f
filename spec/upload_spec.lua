-- The main job from the outside: curl posts to examples/upload.lua, started on a free port and stopped again.

local poll = require("partline.core").poll
local socket = require("socket")
local json = require("dkjson")
local files = require("spec.support.files")
local peers = require("spec.support.peers")

local lua = os.getenv("LUA") or "lua5.4"
local measured = not os.getenv("PARTLINE_UNDER") -- sanitizers and valgrind change memory and time

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1", "r"))
  local out = pipe:read("a")
  local ok = pipe:close()
  return out, ok
end

local function sha256(path)
  return (run("sha256sum < '" .. path .. "'"):match("^%x+"))
end

local have_curl = run("command -v curl") ~= ""

describe("examples/upload.lua", function()
  local dir, port, pid

  local function start(extra)
    port = peers.free_port()
    pid = run(("%s examples/upload.lua --quiet --port %d --dir %s/saved %s > %s/log 2>&1 & echo $!"):format(lua, port,
      dir, extra or "", dir)):match("%d+")
    for _ = 1, 500 do
      local s = socket.connect("127.0.0.1", port)
      if s then s:close() return end
      poll.sleep(0.02)
    end
    error("the server did not start: " .. files.read(dir .. "/log"))
  end

  local function stop()
    if pid then run("kill " .. pid) end
    pid = nil
  end

  local function memory(key)
    return tonumber(files.read("/proc/" .. pid .. "/status"):match(key .. ":%s+(%d+)"))
  end

  -- Posts with curl; → status and the decoded answer.
  local function post(args)
    local out = run(("curl -s -w '\\n%%{http_code}' %s http://127.0.0.1:%d/upload"):format(args, port))
    local body, status = out:match("^(.*)\n(%d+)$")
    return tonumber(status), json.decode(body) or body
  end

  setup(function()
    dir = run("mktemp -d"):match("%S+")
    run(("head -c 3000000 /dev/urandom > %s/random; head -c 0 /dev/null > %s/empty"):format(dir, dir))
    -- what looks like a delimiter: CRs, LFs, dashes, boundaries of every client
    local file = assert(io.open(dir .. "/nasty", "wb"))
    for i = 1, 20000 do file:write("\r\n--", ("-"):rep(i % 40), "\r", i % 3 == 0 and "\n" or "", "\0\r\r\n-") end
    file:close()
  end)

  teardown(function()
    stop()
    if dir then run("rm -rf " .. dir) end
  end)

  before_each(function() if not pid then start() end end)

  if not have_curl then
    pending("needs curl")
    return
  end

  local ways = {
    { "with a length", "" },
    { "chunked", "-H 'Transfer-Encoding: chunked'" },
    { "with Expect", "-H 'Expect: 100-continue'" },
    { "with Expect, chunked", "-H 'Expect: 100-continue' -H 'Transfer-Encoding: chunked'" },
    { "over HTTP/1.0", "--http1.0" },
    { "with part headers", "-F 'j=@$DIR/nasty;type=text/plain;headers=\"X-Extra: 1\"'" },
  }
  for _, way in ipairs(ways) do
    it("saves the right bytes " .. way[1], function()
      for _, name in ipairs { "random", "nasty", "empty" } do
        local extra = way[2]:gsub("%$DIR", dir)
        local status, answer = post(("%s -F a=b -F 'file=@%s/%s'"):format(extra, dir, name))
        assert.equal(200, status)
        local part = answer.parts[#answer.parts]
        assert.equal(name, part.filename)
        assert.equal(sha256(dir .. "/" .. name), sha256(part.saved))
        assert.equal(#files.read(dir .. "/" .. name), part.size)
      end
    end)
  end

  -- A body written by hand, with the boundary as the header has it.
  local function post_raw(content_type, body, more)
    local file = assert(io.open(dir .. "/body", "wb"))
    file:write(body)
    file:close()
    return post(("-H 'Content-Type: %s' --data-binary @%s/body %s"):format(content_type, dir, more or ""))
  end

  local boundaries = {
    "b", "*****", "(a+b).c-d?", "simple boundary", "==17==", "----x", ("y"):rep(70), "'",
  }
  for _, boundary in ipairs(boundaries) do
    it("takes the boundary " .. boundary, function()
      local content = files.read(dir .. "/nasty")
      local head = 'Content-Disposition: form-data; name="f"; filename="x"\r\n\r\n'
      local body = "--" .. boundary .. "\r\n" .. head .. content .. "\r\n--" .. boundary .. "--\r\n"
      for _, more in ipairs { "", "-H 'Transfer-Encoding: chunked'" } do
        local quoted = boundary:gsub("'", "'\\''")
        local status, answer = post_raw('multipart/form-data; boundary="' .. quoted .. '"', body, more)
        assert.equal(200, status)
        assert.equal(content, files.read(answer.parts[1].saved))
      end
    end)
  end

  it("takes parts with and without a length, and chunked ones", function()
    local parts = {
      { 'Content-Disposition: form-data; name="a"; filename="1"\r\nContent-Length: 5\r\n', "hello", "hello" },
      { 'Content-Disposition: form-data; name="b"; filename="2"\r\n', "world", "world" },
      { 'Content-Disposition: form-data; name="c"; filename="3"\r\nTransfer-Encoding: chunked\r\n',
        "5\r\nhello\r\n1\r\n \r\n5\r\nagain\r\n0\r\n\r\n", "hello again" },
      { 'Content-Disposition: form-data; name="d"; filename="4"\r\nContent-Length: 2\r\n', "longer", "longer" },
    }
    local body = {}
    for _, part in ipairs(parts) do body[#body + 1] = "--b\r\n" .. part[1] .. "\r\n" .. part[2] .. "\r\n" end
    local status, answer = post_raw("multipart/form-data; boundary=b", table.concat(body) .. "--b--")
    assert.equal(200, status)
    for i, part in ipairs(parts) do assert.equal(part[3], files.read(answer.parts[i].saved)) end
  end)

  it("keeps files in its directory whatever their name", function()
    local names = { "../../up", "/etc/passwd", "..\\..\\win", "..", ".hidden", "a\tb", "", ("n"):rep(300) }
    for _, name in ipairs(names) do
      local head = ('Content-Disposition: form-data; name="f"; filename="%s"'):format(name)
      local body = "--b\r\n" .. head .. "\r\n\r\nx\r\n--b--\r\n"
      local status, answer = post_raw("multipart/form-data; boundary=b", body)
      assert.equal(200, status)
      local saved = answer.parts[1].saved
      if name == "" then
        assert.is_nil(saved)
      else
        assert.equal(dir .. "/saved", saved:match("^(.*)/[^/]+$"))
        assert.is_nil(saved:match("/%.[^/]*$"))
        assert.equal("x", files.read(saved))
      end
    end
  end)

  it("answers a broken upload with its status and leaves no file", function()
    local before = run("ls -A " .. dir .. "/saved | wc -l")
    local head = '--b\r\nContent-Disposition: form-data; name="f"; filename="cut"\r\n\r\n'
    local status, answer = post_raw("multipart/form-data; boundary=b", head .. "no end")
    assert.equal(400, status)
    assert.matches("ended too early", answer)
    assert.equal(400, (post_raw("multipart/form-data; boundary=b", "--c\r\n\r\n--c--\r\n")))
    assert.equal(400, (post_raw("multipart/form-data", head)))
    assert.equal(415, (post_raw("text/plain", "x")))
    assert.equal(before, run("ls -A " .. dir .. "/saved | wc -l"))
    assert.equal(200, (post("-F a=b")))
  end)

  it("leaves no file when the client goes away in mid-part", function()
    local before = run("ls -A " .. dir .. "/saved | wc -l")
    local s = assert(socket.connect("127.0.0.1", port))
    s:send("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
      .. "Content-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"cut\"\r\n\r\nabc")
    poll.sleep(0.1)
    s:close()
    for _ = 1, 100 do
      if run("ls -A " .. dir .. "/saved | wc -l") == before then break end
      poll.sleep(0.02)
    end
    assert.equal(before, run("ls -A " .. dir .. "/saved | wc -l"))
  end)

  it("has control before the second packet of the body", function()
    local s = assert(socket.connect("127.0.0.1", port))
    s:settimeout(5)
    s:send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
      .. "Content-Length: 1000000\r\n\r\n")
    assert.matches("^HTTP/1.1 404", (s:receive("*l"))) -- nothing of the body was sent, and the answer is here
    s:close()
  end)

  it("keeps its memory whatever the size", function()
    if not measured then return end
    stop()
    start()
    local function peak(mib)
      run(("head -c %d /dev/zero > %s/sized"):format(mib * 1048576, dir))
      local status, answer = post(("-F 'file=@%s/sized'"):format(dir))
      assert.equal(200, status)
      assert.equal(mib * 1048576, answer.parts[1].size)
      os.remove(answer.parts[1].saved)
      return memory("VmHWM")
    end
    local idle = memory("VmRSS")
    local small = peak(10)
    local large = peak(200)
    assert.is_true(small - idle < 4096, ("10 MiB cost %d KiB"):format(small - idle))
    assert.is_true(large - small < 512, ("200 MiB cost %d KiB more than 10 MiB"):format(large - small))
  end)
end)

describe("a part saved to a file", function()
  it("makes no Lua string per piece", function()
    local multipart, reader = require("partline.multipart"), require("partline.reader")
    local big = os.tmpname()
    local file = assert(io.open(big, "wb"))
    file:write("--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n")
    for _ = 1, 2000 do file:write(("0123456789abcdef"):rep(1024)) end
    file:write("\r\n--b--\r\n")
    file:close()
    for part in multipart.parse(reader.from_file(big), "multipart/form-data; boundary=b") do
      collectgarbage() collectgarbage("stop")
      local before = collectgarbage("count")
      assert.equal(2000 * 16384, part.content:save("/dev/null"))
      local grown = collectgarbage("count") - before
      collectgarbage("restart")
      assert.is_true(grown < 4, ("%.1f KiB of garbage"):format(grown))
    end
    os.remove(big)
  end)
end)
