local core = require "partline.core"
local headers = require "partline.headers"
local message = require "partline.message"
local reader = require "partline.reader"

local from_string = reader.from_string

local function received(fields)
  return message.read_request(from_string("GET / HTTP/1.1\r\nHost: a\r\n" .. fields .. "\r\n")).headers
end

local function list(h)
  local out = {}
  for name, value in headers.each(h) do out[#out + 1] = name .. "=" .. value end
  return out
end

describe("received fields", function()
  local h = received("X-One: 1\r\nx-two: 2\r\nX-ONE: uno\r\nContent-Type: text/plain\r\nx-Two:\r\nx-one: eins\r\n")

  it("are found whatever the case", function()
    for _, name in ipairs { "Content-Type", "content-type", "CONTENT-TYPE", "cOnTeNt-TyPe" } do
      assert.equal("text/plain", h[name])
    end
    assert.is_nil(h["Content-Typ"])
    assert.is_nil(h["content-type "])
    assert.is_nil(h[1])
    assert.is_nil(h[true])
  end)

  it("keep the name as it came first", function()
    local names = {}
    for name in pairs(h) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "Content-Type", "Host", "X-One", "x-two" }, names)
  end)

  it("are joined when repeated, in order", function()
    assert.equal("1, uno, eins", h["x-one"])
    assert.equal("2, ", h["X-Two"])
  end)

  it("are given one by one in order by each", function()
    assert.same({
      "Host=a", "X-One=1", "x-two=2", "X-ONE=uno", "Content-Type=text/plain", "x-Two=", "x-one=eins",
    }, list(h))
  end)

  it("are given one by one by get_all", function()
    assert.same({ "1", "uno", "eins" }, headers.get_all(h, "x-One"))
    assert.same({ "2", "" }, headers.get_all(h, "X-TWO"))
    assert.same({}, headers.get_all(h, "none"))
  end)

  it("hold strings, also where they look like numbers", function()
    local n = received("A: 12\r\nB: 0x10\r\nC: 1e2\r\nD:  7 \r\n")
    assert.same({ "12", "0x10", "1e2", "7" }, { n.a, n.b, n.c, n.d })
  end)

  it("keep _ and - apart", function()
    local u = received("A-B: 1\r\nA_B: 2\r\n")
    assert.same({ "1", "2" }, { u["a-b"], u["a_b"] })
  end)

  it("keep bytes from 0x80, and white space inside", function()
    assert.equal("\xe3\x81\x82\xff a \t b", received("X: \t\xe3\x81\x82\xff a \t b\t \r\n").x)
  end)

  it("compare names by ASCII alone", function()
    local k = received("K^: 1\r\n")
    assert.equal("1", k["k^"])
    assert.is_nil(k["k~"]) -- as far apart as upper and lower case are
    assert.is_nil(k["\xe2\x84\xaa^"]) -- the sign of the unit kelvin, whose lower case is k
  end)
end)

describe("Set-Cookie", function()
  local function response(fields)
    return message.read_response(from_string("HTTP/1.1 204 No\r\n" .. fields .. "\r\n")).headers
  end

  it("is always a list", function()
    assert.same({ "a=1; Expires=Wed, 04 Mar 2015 07:05:42 GMT" },
      response("Set-Cookie: a=1; Expires=Wed, 04 Mar 2015 07:05:42 GMT\r\n")["set-cookie"])
    local several = response("set-cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\nSET-COOKIE: c=3\r\n")
    assert.same({ "a=1", "b=2", "c=3" }, several["Set-Cookie"])
  end)

  it("is given one by one", function()
    local h = response("set-cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\n")
    assert.same({ "set-cookie=a=1", "X=y", "Set-Cookie=b=2" }, list(h))
    assert.same({ "a=1", "b=2" }, headers.get_all(h, "Set-Cookie"))
  end)
end)

describe("a response's fields", function()
  it("unfold", function()
    local r = message.read_response(from_string("HTTP/1.1 204 No\r\nA: one\r\n \t two\r\n\tthree\r\nB:\r\n x\r\n\r\n"))
    assert.equal("one two three", r.headers.a)
    assert.same({ "A=one two three", "B=x" }, list(r.headers))
  end)

  it("keep their order behind empty lines", function()
    local r = message.read_response(from_string("\r\n\r\nHTTP/1.1 204 No\r\nB: 1\r\nA: 2\r\n\r\n"))
    assert.same({ "B=1", "A=2" }, list(r.headers))
  end)

  it("keep their order with bare line feeds", function()
    local r = message.read_response(from_string("HTTP/1.1 204 No\nB: 1\nA: 2\n\n"))
    assert.same({ "B=1", "A=2" }, list(r.headers))
  end)
end)

describe("order", function()
  it("is that of what was received, also after changes; what was added comes last", function()
    local h = received("D: 0\r\nB: 1\r\nA: 2\r\n")
    h.C, h.b, h.a, h.Ab = "3", nil, "two", { "4", "5" }
    assert.equal("3", h.c)
    assert.same({ "Host=a", "D=0", "A=two", "Ab=4", "Ab=5", "C=3" }, list(h))
  end)

  it("keeps repeated fields apart until they are changed", function()
    local h = received("B: 1\r\nA: 2\r\nb: 3\r\n")
    h.C = "4"
    assert.same({ "Host=a", "B=1", "A=2", "b=3", "C=4" }, list(h))
    h.B = "one"
    assert.same({ "Host=a", "B=one", "A=2", "C=4" }, list(h))
    h.B = nil
    assert.same({ "Host=a", "A=2", "C=4" }, list(h))
  end)

  it("is that of each table, though names and values are shared", function()
    local one, two, three = received("B: 1\r\nA: 2\r\n"), received("B: 1\r\nA: 3\r\n"), received("A: 1\r\nB: 2\r\n")
    one.B = "x"
    assert.same({ "Host=a", "B=x", "A=2" }, list(one))
    assert.same({ "Host=a", "B=1", "A=3" }, list(two))
    assert.same({ "Host=a", "A=1", "B=2" }, list(three))
    assert.same({ "Host=a", "B=1", "A=2" }, list(received("B: 1\r\nA: 2\r\n")))
  end)

  it("is remembered of any number of names", function()
    local fields, want = {}, { "Host=a" }
    for i = 1, 90 do
      fields[i] = ("X%d: %d\r\n"):format(91 - i, i)
      want[i + 1] = ("X%d=%d"):format(91 - i, i)
    end
    assert.same(want, list(received(table.concat(fields))))
    local long = ("n"):rep(2000)
    assert.same({ "Host=a", "B=1", long .. "=2", "A=3" }, list(received("B: 1\r\n" .. long .. ": 2\r\nA: 3\r\n")))
  end)

  it("is the alphabet's in other tables", function()
    assert.same({ "A=2", "B=1", "b=3", "b=4" }, list { B = "1", A = "2", b = { "3", "4" } })
    assert.same({}, list {})
    assert.same({ "3", "4" }, headers.get_all({ b = { "3", "4" } }, "B"))
    assert.same({ "x", "y", "z" }, headers.get_all({ Via = "x", vIA = { "y", "z" } }, "via"))
  end)

  it("keeps nothing alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local h = received("A: 1\r\n")
      assert.is_table(core.head.order(h))
      weak[h] = true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("may be asked for twice at a time", function()
    local h = received("B: 1\r\nA: 2\r\n")
    local one, two = headers.each(h), headers.each(h)
    assert.equal("Host", (one()))
    assert.equal("B", (one()))
    assert.equal("Host", (two()))
    assert.equal("A", (one()))
    assert.is_nil((one()))
  end)
end)

describe("headers.new", function()
  it("gives a table the look-up that ignores case, and stays the same table", function()
    local t = { ["Content-Type"] = "text/plain" }
    local h = headers.new(t)
    assert.equal(t, h)
    assert.equal("text/plain", h["content-TYPE"])
    assert.same({}, headers.new())
  end)

  it("writes to the name that is there", function()
    local h = headers.new { ["Content-Type"] = "text/plain" }
    h["content-type"] = "text/html"
    assert.equal("text/html", rawget(h, "Content-Type"))
    assert.is_nil(rawget(h, "content-type"))
    h["CONTENT-type"] = nil
    assert.is_nil(next(h))
    h.new = 1
    h.New = 2
    assert.equal(2, rawget(h, "new"))
  end)

  it("keeps other keys apart", function()
    local h = headers.new { "first", [true] = "yes" }
    h[2] = "second"
    assert.same({ "first", "second", "yes" }, { h[1], h[2], h[true] })
  end)

  it("raises for what is no table", function()
    assert.has_error(function() headers.new("x") end)
    assert.has_error(function() headers.new(5) end)
  end)
end)

describe("headers.get", function()
  it("looks into any table", function()
    assert.equal("a", headers.get({ HOST = "a" }, "host"))
    assert.equal("a", headers.get({ host = "a" }, "Host"))
    assert.equal("a", headers.get(received(""), "HOST"))
    assert.is_nil(headers.get({}, "host"))
    assert.is_nil(headers.get(nil, "host"))
    assert.is_nil(headers.get({ "host" }, "host"))
  end)
end)

-- Names and values of one head are kept for the next (csrc/bind/lpl_message.c): nothing of it may show.
describe("heads one after the other", function()
  it("have the values of their own, whatever came before", function()
    for i = 1, 400 do
      local value = ("v"):rep(i % 150) .. (i % 7)
      local cookie = "c" .. i // 3
      local h = received(("A: %s\r\nB: same\r\nCookie: %s\r\nAuthorization: %s\r\n"):format(value, cookie, cookie))
      assert.same({ "Host=a", "A=" .. value, "B=same", "Cookie=" .. cookie, "Authorization=" .. cookie }, list(h))
      assert.equal(value, h.a)
    end
  end)

  it("have the names of their own, in more orders than are kept", function()
    for round = 1, 2 do
      for i = 1, 300 do
        local h = received(("N%d: %d\r\nM: m\r\n"):format(i, round))
        assert.same({ "Host=a", ("N%d=%d"):format(i, round), "M=m" }, list(h))
      end
    end
  end)

  it("keep the case of theirs", function()
    assert.same({ "Host=a", "Abc=1" }, list(received("Abc: 1\r\n")))
    assert.same({ "Host=a", "aBc=1" }, list(received("aBc: 1\r\n")))
    assert.same({ "Host=a", "Abc=1" }, list(received("Abc: 1\r\n")))
  end)
end)

-- What pairs shows of a table.
local function shown(t)
  local out = {}
  for name, value in pairs(t) do out[name] = value end
  return out
end

describe("a message", function()
  local function request(target)
    return message.read_request(from_string(("GET %s HTTP/1.0\r\nA: 1\r\n\r\n"):format(target)))
  end

  it("shows all it has to pairs", function()
    local version = { name = "HTTP", major = 1, minor = 0 }
    assert.same({ method = "GET", target = "/a?b", path = "/a", query = "b", protocol_version = version,
      headers = { A = "1" } }, shown(request("/a?b")))
    assert.same({ method = "GET", target = "/a", path = "/a", protocol_version = version, headers = { A = "1" } },
      shown(request("/a")))
    local r = message.read_response(from_string("HTTP/1.1 204 No\r\n\r\n"))
    version.minor = 1
    assert.same({ status = 204, reason_phrase = "No", protocol_version = version, headers = {} }, shown(r))
  end)

  it("answers to its names in kebab-case", function()
    local r = request("/a?b")
    assert.equal(1, r["protocol-version"].major)
    assert.equal("/a", r["path?"])
    assert.is_nil(r["no-such"])
    assert.is_nil(r[1])
    assert.is_nil(r.reason_phrase)
    assert.equal("b", r.query)
  end)

  it("can be changed as any table", function()
    local r = request("/a?b")
    r.path, r.query, r.more = "/other", "q", 1
    r.headers.B = "2"
    assert.same({ "/other", "q", 1 }, { r.path, r.query, r.more })
    assert.same({ A = "1", B = "2" }, shown(r).headers)
    assert.equal("/other", shown(r).path)
    r = request("/a")
    r.path = "/other"
    assert.is_nil(r.query)
    assert.equal("/other", r.path)
    r = request("/a?b")
    r.query = "c"
    assert.equal("/a", r.path)
    assert.equal("c", shown(r).query)
  end)
end)

describe("late headers", function()
  local HEAD = "POST /a?b HTTP/1.1\r\nHost: a\r\nB: 1\r\nA: 2\r\nb: 3\r\nContent-Length: 2\r\n\r\nhi"

  local function late(bytes)
    return message.next_request(from_string(bytes or HEAD), message.parser { late_headers = true })
  end

  it("are there when asked for, with their order", function()
    local request = late("GET /a?b HTTP/1.1\r\nHost: a\r\nB: 1\r\nA: 2\r\nb: 3\r\n\r\n")
    assert.is_nil(rawget(request, "headers"))
    assert.equal("1, 3", request.headers.B)
    assert.equal(request.headers, rawget(request, "headers"))
    assert.same({ "Host=a", "B=1", "A=2", "b=3" }, list(request.headers))
  end)

  it("are shown by pairs, and nothing else is", function()
    local one = shown(late("\r\nGET /a HTTP/1.0\r\nB: 1\r\n\r\n"))
    assert.same(shown(message.read_request(from_string("GET /a HTTP/1.0\r\nB: 1\r\n\r\n"))), one)
    assert.same({ B = "1" }, one.headers)
  end)

  it("may be replaced, and go with a body", function()
    local request = late()
    assert.equal("hi", request.body:read("a"))
    assert.equal(2, request.length)
    request.headers = { X = "1" }
    assert.same({ X = "1" }, request.headers)
    assert.same({ X = "1" }, shown(request).headers)
    request = late("GET /a HTTP/1.0\r\nB: 1\r\n\r\n")
    request.headers = { X = "1" }
    assert.same({ X = "1" }, request.headers)
    for name in pairs(request) do assert.is_string(name) end
    assert.same({ X = "1" }, request.headers)
  end)

  it("are refused at once all the same", function()
    local _, _, code = late("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nContent-Length: 1\r\n\r\n")
    assert.equal("te-and-cl", code)
  end)
end)
