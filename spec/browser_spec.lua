-- What a browser sends and gets: Chromium opens a page of ours, whose script uploads by fetch and by forms, and reads a
-- response while it is still being written. The script and the spec make the same bytes by the same rule.

local form = require "partline.form"
local peers = require "spec.support.peers"
local serving = require "spec.support.serving"

local BIG = 3000000

local PAGE = [[
<!doctype html><meta charset=utf-8><title>partline</title>
<form id=form method=post enctype="multipart/form-data" target=frame action=/form>
<input name='quo"ted' value="one&#10;two"><input type=file name=files multiple>
</form>
<form id=plain method=post target=frame action=/plain><input name=a value="1 &amp; ü"><input name=a value=""></form>
<iframe name=frame></iframe>
<script>
function bytes(n) {
  const out = new Uint8Array(n), line = new TextEncoder().encode("\r\n------WebKitFormBoundary")
  for (let i = 0; i < n; i++) out[i] = (i * i + (i >> 8)) & 255
  for (let i = 1000; i + line.length < n; i += 65521) out.set(line, i)
  return out
}
function loaded() {
  return new Promise(done => { document.querySelector("iframe").onload = done })
}
async function all() {
  const data = new FormData()
  data.append("note", "lines\r\nof\ntext \u20ac")
  data.append("", "no name")
  data.append("name with \"quotes\" and\nlines", "")
  data.append("file", new File([bytes(BIG)], "b\u00fccher \u20ac \"x\".bin", { type: "application/x-own" }))
  data.append("file", new File([], "empty.txt"))
  data.append("file", new Blob(["blob"]))
  data.append("after", "the files")
  const told = await (await fetch("/fetch", { method: "POST", body: data })).text()
  const input = document.querySelector("input[type=file]"), transfer = new DataTransfer()
  transfer.items.add(new File(["first"], "a/b\\c.txt", { type: "text/plain" }))
  transfer.items.add(new File([bytes(70000)], "second"))
  input.files = transfer.files
  let done = loaded()
  document.getElementById("form").submit()
  await done
  done = loaded()
  document.getElementById("plain").submit()
  await done
  const response = await fetch("/stream"), reader = response.body.getReader(), pieces = []
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    pieces.push(new TextDecoder().decode(value))
    if (pieces.length == 1) await fetch("/go")
  }
  const head = await fetch("/head", { method: "HEAD" })
  const put = await fetch("/put", { method: "PUT", body: new Blob([bytes(BIG)]) })
  await fetch("/report", { method: "POST", body: JSON.stringify([told, pieces[0], pieces.join(""), head.status,
    head.headers.get("content-length"), await put.text()]) })
}
all().catch(e => fetch("/report", { method: "POST", body: JSON.stringify(String(e.stack)) }))
</script>
]]

local function bytes(n)
  local line, out = "\r\n------WebKitFormBoundary", {}
  for i = 0, n - 1 do out[i + 1] = string.char((i * i + (i >> 8)) & 255) end
  local all, pieces, at = table.concat(out), {}, 1
  for i = 1000, n - #line - 1, 65521 do
    pieces[#pieces + 1] = all:sub(at, i)
    pieces[#pieces + 1] = line
    at = i + #line + 1
  end
  pieces[#pieces + 1] = all:sub(at)
  return table.concat(pieces)
end

local chromium = peers.find("chromium") or peers.find("chromium-browser")

local function parts_of(request)
  local list = {}
  for part in request.parts do
    list[#list + 1] = { part.name, part.filename, part.headers["Content-Type"], part.content:read("a") }
  end
  return list
end

describe("a browser can", function()
  if not chromium or os.getenv("PARTLINE_UNDER") then
    return pending("Chromium is not installed, or would run under a checker")
  end

  local seen, told = {}, nil

  local handlers = {
    ["/"] = function()
      seen.page = true
      local page = PAGE:gsub("BIG", tostring(BIG))
      return { headers = { ["Content-Type"] = "text/html; charset=utf-8" }, body = page }
    end,
    ["/fetch"] = function(request)
      seen.fetch = parts_of(request)
      return "seen"
    end,
    ["/form"] = function(request)
      seen.form = parts_of(request)
      return "seen"
    end,
    ["/plain"] = function(request)
      seen.plain = form.read(request)
      return "seen"
    end,
    ["/stream"] = function()
      return { headers = { ["Content-Type"] = "text/plain" }, stream = function(write)
        write("begun ")
        while not seen.go do serving.sleep(0.01) end -- the browser says so when it has the first piece
        write("and ended")
      end }
    end,
    ["/go"] = function()
      seen.go = true
      return "go"
    end,
    ["/head"] = function() return { body = "twelve bytes" } end,
    ["/put"] = function(request) return tostring(request.content:read("a") == bytes(BIG)) end,
    ["/report"] = function(request)
      told = require("spec.support.json").decode(request.content:read("a"))
      return "thanks"
    end,
  }

  setup(function()
    local dir, browser = peers.directory(), nil
    serving.run(function(request)
      local handler = handlers[request.path]
      return handler and handler(request) or { status = 404, body = "" }
    end, {}, function(t)
      local options = " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
        .. " --remote-debugging-port=0"
      local profile, url = " --user-data-dir=" .. dir .. "/profile ", "http://127.0.0.1:" .. t.server.port .. "/"
      local command = "timeout 60 " .. chromium .. options .. profile .. url .. " >/dev/null 2>&1 & echo $!"
      browser = io.popen(command):read("l")
      local function await(what, seconds)
        local deadline = t.loop.deadline_in(seconds)
        while not what() and t.loop.now() < deadline do t.loop.sleep(0.05) end
      end
      await(function() return seen.page end, 20)
      if seen.page then await(function() return told end, 40) end
    end)
    os.execute(("kill %s; for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 %s || break; sleep 0.1; done 2>/dev/null"):format(
      browser, browser))
    peers.remove(dir)
  end)

  -- What it does, where it starts at all: in a container it may not.
  local function does(what, f)
    it(what, function()
      if not seen.page then return pending("Chromium does not start here") end
      f()
    end)
  end

  does("end its script", function()
    assert.equal("table", type(told), tostring(told))
  end)

  does("upload with fetch", function()
    assert.equal(7, #seen.fetch)
    local note, unnamed, quoted, big, empty, blob, after = table.unpack(seen.fetch)
    assert.same({ "note", nil, nil, "lines\r\nof\r\ntext \u{20ac}" }, note)
    assert.same({ "", nil, nil, "no name" }, unnamed)
    assert.same({ "name with \"quotes\" and\r\nlines", nil, nil, "" }, quoted)
    assert.same({ "file", "b\u{fc}cher \u{20ac} \"x\".bin", "application/x-own" }, { big[1], big[2], big[3] })
    assert.is_true(big[4] == bytes(BIG))
    assert.same({ "file", "empty.txt", "application/octet-stream", "" }, empty)
    assert.same({ "file", "blob", "application/octet-stream", "blob" }, blob)
    assert.same({ "after", nil, nil, "the files" }, after)
    assert.equal("seen", told[1])
  end)

  does("upload with a form", function()
    local field, first, second = table.unpack(seen.form)
    assert.equal(3, #seen.form)
    assert.equal("quo\"ted", field[1])
    assert.same({ "files", "text/plain", "first" }, { first[1], first[3], first[4] })
    assert.same({ "files", "second" }, { second[1], second[2] })
    assert.is_true(second[4] == bytes(70000))
  end)

  does("send a form without files", function()
    assert.same({ "1 & \u{fc}", "" }, seen.plain:get_all("a"))
  end)

  does("have the first piece of a response before the last is written", function()
    assert.equal("begun ", told[2])
    assert.equal("begun and ended", told[3])
  end)

  does("ask for heads alone, and put what it likes", function()
    assert.same({ 200, "12", "true" }, { told[4], told[5], told[6] })
  end)
end)
