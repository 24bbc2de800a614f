-- partline.url: RFC 3986 with its own examples, percent coding, queries.

local url = require "partline.url"

local function parts(s)
  local u = assert(url.parse(s))
  return setmetatable(u, nil)
end

describe("url.parse", function()
  it("takes every part", function()
    assert.same({
      scheme = "http", userinfo = "user:pass", host = "example.org", port = 8080, path = "/a/b", query = "x=1&y",
        fragment = "top",
    }, parts "http://user:pass@example.org:8080/a/b?x=1&y#top")
  end)

  it("leaves out what is absent and keeps what is empty", function()
    assert.same({ scheme = "http", host = "h", path = "" }, parts "http://h")
    assert.same({ scheme = "http", host = "h", path = "", query = "", fragment = "" }, parts "http://h?#")
    assert.same({ scheme = "http", host = "h", path = "/" }, parts "http://h:/")
    assert.same({ scheme = "http", host = "h", path = "/", userinfo = "" }, parts "http://@h/")
    assert.same({ path = "" }, parts "")
  end)

  it("takes relative references", function()
    assert.same({ host = "h", path = "/p" }, parts "//h/p")
    assert.same({ path = "/a%3Fb" }, parts "/a%3Fb")
    assert.same({ path = "a/b", query = "c" }, parts "a/b?c")
    assert.same({ path = "", query = "q" }, parts "?q")
    assert.same({ path = "./this:that" }, parts "./this:that")
  end)

  it("takes the examples of RFC 3986 1.1.2", function()
    assert.same({ scheme = "ftp", host = "ftp.is.co.za", path = "/rfc/rfc1808.txt" },
      parts "ftp://ftp.is.co.za/rfc/rfc1808.txt")
    assert.same({ scheme = "ldap", host = "[2001:db8::7]", path = "/c=GB", query = "objectClass?one" },
      parts "ldap://[2001:db8::7]/c=GB?objectClass?one")
    assert.same({ scheme = "mailto", path = "John.Doe@example.com" }, parts "mailto:John.Doe@example.com")
    assert.same({ scheme = "telnet", host = "192.0.2.16", port = 80, path = "/" }, parts "telnet://192.0.2.16:80/")
    assert.same({ scheme = "urn", path = "oasis:names:specification:docbook:dtd:xml:4.1.2" },
      parts "urn:oasis:names:specification:docbook:dtd:xml:4.1.2")
  end)

  it("refuses what could break a request or hide a host", function()
    for _, bad in ipairs {
      "http://h/a b", "http://h/\r\nX: 1", "http://h/\0", "http://h\t/", "http://h:80a/", "http://h:65536/",
        "http://h:-1/",
      "http://[::1/", "http://[::1]x/", "http://[]/", "http://a[b]/", "http://h\\@other/", "http://h|x/",
        "http://h<>/", "http://\127/",
    } do
      local u, message, code = url.parse(bad)
      assert.is_nil(u, bad)
      assert.is_string(message)
      assert.equal("bad-url", code)
    end
  end)

  it("ends the userinfo at the last @", function()
    local u = parts "http://a@b@c/"
    assert.equal("a@b", u.userinfo)
    assert.equal("c", u.host)
  end)
end)

describe("url.build", function()
  it("is the inverse of parse", function()
    for _, s in ipairs {
      "http://user:pass@example.org:8080/a/b?x=1&y#top", "http://h", "http://h?#", "//h/p", "a/b?c", "", "?q", "#f",
      "ldap://[2001:db8::7]/c=GB?objectClass?one", "mailto:John.Doe@example.com", "/a//b", "http://@h/",
    } do
      assert.equal(s, tostring(assert(url.parse(s))))
    end
  end)

  it("takes tables", function()
    assert.equal("http://h:81/p?a=1&b=2", url.build { scheme = "http", host = "h", port = 81, path = "p",
      query = { b = 2, a = 1 } })
    assert.equal("http://[::1]/", url.build { scheme = "http", host = "::1", path = "/" })
    assert.equal("/.//x", url.build { path = "//x" })
  end)
end)

describe("url.resolve", function()
  -- RFC 3986 5.4
  local base = "http://a/b/c/d;p?q"
  local normal = {
    ["g:h"] = "g:h", ["g"] = "http://a/b/c/g", ["./g"] = "http://a/b/c/g", ["g/"] = "http://a/b/c/g/",
    ["/g"] = "http://a/g",
    ["//g"] = "http://g", ["?y"] = "http://a/b/c/d;p?y", ["g?y"] = "http://a/b/c/g?y", ["#s"] = "http://a/b/c/d;p?q#s",
    ["g#s"] = "http://a/b/c/g#s", ["g?y#s"] = "http://a/b/c/g?y#s", [";x"] = "http://a/b/c/;x",
    ["g;x"] = "http://a/b/c/g;x",
    ["g;x?y#s"] = "http://a/b/c/g;x?y#s", [""] = "http://a/b/c/d;p?q", ["."] = "http://a/b/c/",
    ["./"] = "http://a/b/c/",
    [".."] = "http://a/b/", ["../"] = "http://a/b/", ["../g"] = "http://a/b/g", ["../.."] = "http://a/",
    ["../../"] = "http://a/",
    ["../../g"] = "http://a/g",
  }
  local abnormal = {
    ["../../../g"] = "http://a/g", ["../../../../g"] = "http://a/g", ["/./g"] = "http://a/g", ["/../g"] = "http://a/g",
    ["g."] = "http://a/b/c/g.", [".g"] = "http://a/b/c/.g", ["g.."] = "http://a/b/c/g..", ["..g"] = "http://a/b/c/..g",
    ["./../g"] = "http://a/b/g", ["./g/."] = "http://a/b/c/g/", ["g/./h"] = "http://a/b/c/g/h",
    ["g/../h"] = "http://a/b/c/h",
    ["g;x=1/./y"] = "http://a/b/c/g;x=1/y", ["g;x=1/../y"] = "http://a/b/c/y", ["g?y/./x"] = "http://a/b/c/g?y/./x",
    ["g?y/../x"] = "http://a/b/c/g?y/../x", ["g#s/./x"] = "http://a/b/c/g#s/./x",
    ["g#s/../x"] = "http://a/b/c/g#s/../x",
    ["http:g"] = "http:g",
  }
  for name, set in pairs { normal = normal, abnormal = abnormal } do
    it("gives the " .. name .. " examples of RFC 3986 5.4", function()
      for reference, want in pairs(set) do
        assert.equal(want, tostring(assert(url.resolve(base, reference))), reference)
      end
    end)
  end

  it("puts a slash between a host and a relative path", function()
    assert.equal("http://h/x", tostring(url.resolve("http://h", "x")))
    assert.equal("http://h:1/?q", tostring(url.resolve("http://h:1/", "?q")))
  end)

  it("passes on what cannot be parsed", function()
    local u, _, code = url.resolve("http://h/", "/a b")
    assert.is_nil(u)
    assert.equal("bad-url", code)
  end)
end)

describe("percent coding", function()
  local all = {}
  for i = 0, 255 do all[#all + 1] = string.char(i) end
  all = table.concat(all)

  it("brings every byte back", function()
    for _, keep in ipairs { "unreserved", "path", "query" } do
      assert.equal(all, url.decode(url.encode(all, keep)), keep)
    end
    assert.equal(all, url.decode(url.encode(all)))
    assert.equal(all, url.decode(url.encode(all, "form"), true))
  end)

  it("keeps what the place allows", function()
    assert.equal("abc-._~", url.encode "abc-._~")
    assert.equal("%20%21%2F%3F%25%2B%C3%A9", url.encode " !/?%+é")
    assert.equal("a/b;c=d&e:@!%3F%20", url.encode("a/b;c=d&e:@!? ", "path"))
    assert.equal("a?/b%23", url.encode("a?/b#", "query"))
    assert.equal("a+b%2B*-._%7E", url.encode("a b+*-._~", "form"))
    assert.equal("/%C3%A9%20%41?x=[1]#%7B", url.encode("/é %41?x=[1]#{", "url"))
  end)

  it("leaves a bad percent alone", function()
    assert.equal("%zz% %4", url.decode "%zz%%20%4")
    assert.equal("a b", url.decode("a+b", true))
    assert.equal("a+b", url.decode("a+b"))
  end)
end)

describe("queries", function()
  it("become tables, repeated names lists", function()
    assert.same({ a = { "1", "2", "3" }, b = "x y", c = "", ["d e"] = "=&" },
      url.parse_query "a=1&b=x+y&a=2&c&d+e=%3D%26&a=3&&")
  end)

  it("keep their order as pairs", function()
    assert.same({ { "b", "1" }, { "a", "2" }, { "b", "" } }, url.query_pairs "b=1&a=2&b")
  end)

  it("have a limit", function()
    local t, _, code = url.parse_query("a&b&c", 2)
    assert.is_nil(t)
    assert.equal("too-many-parameters", code)
  end)

  it("are built from tables", function()
    assert.equal("a=1&b=2&b=3&c=true", url.build_query { b = { 2, "3" }, a = 1, c = true })
    assert.equal("z=1&a=x%20y", url.build_query { { "z", 1 }, { "a", "x y" } })
    assert.equal("a=x+y", url.build_query({ a = "x y" }, "form"))
    assert.equal("", url.build_query {})
    assert.has_error(function() url.build_query { a = {{}} } end)
  end)
end)
