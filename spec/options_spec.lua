local options = require "partline.options"
local check = require "spec.support.check"

describe("options.snake", function()
  it("turns Fennel's names into ours", function()
    for given, want in pairs {
      ["throw-errors?"] = "throw_errors", ["throw-errors"] = "throw_errors", throw_errors = "throw_errors",
      ["max-part-head"] = "max_part_head", ["tls?"] = "tls", host = "host", ["?"] = "", [""] = "", ["a-b?c"] = "a_b?c",
    } do
      assert.equal(want, options.snake(given))
    end
  end)

  it("gives one value", function()
    assert.equal(1, select("#", options.snake("a-b-c?")))
  end)
end)

describe("options.read", function()
  it("copies, with snake_case names", function()
    local given = { ["max-head"] = 1, max_fields = 2, ["x?"] = false }
    local got = options.read(given)
    assert.same({ max_head = 1, max_fields = 2, x = false }, got)
    got.max_head = 5
    assert.equal(1, given["max-head"])
  end)

  it("takes what is not given from the defaults, and leaves those alone", function()
    local defaults = { host = "127.0.0.1", port = 0, on = true }
    assert.same({ host = "::1", port = 0, on = false }, options.read({ host = "::1", ["on?"] = false }, defaults))
    assert.same({ host = "127.0.0.1", port = 0, on = true }, defaults)
  end)

  it("takes nothing for an empty table", function()
    assert.same({}, options.read(nil))
    assert.same({ a = 1 }, options.read(nil, { a = 1 }))
  end)

  it("keeps keys that are no strings", function()
    assert.same({ "a", "b", [true] = 1 }, options.read { "a", "b", [true] = 1 })
  end)

  it("raises for what is no table", function()
    local ok, err = pcall(options.read, 5)
    assert.is_false(ok)
    assert.is_truthy(err:find("table", 1, true))
  end)
end)

describe("options.limits", function()
  it("reads them as options.read does", function()
    local given = { ["max-head"] = 5, max_parts = 0, other = "x" }
    assert.same({ max_head = 5, max_parts = 0, other = "x" }, options.limits(given))
    assert.same({}, options.limits(nil))
  end)

  it("raises for what is no limit, at the caller's line", function()
    check.raises("max_head must be a non-negative integer", function() options.limits { max_head = -1 } end)
    check.raises("max_parts must be a non-negative integer", function() options.limits { ["max-parts"] = "5" } end)
    check.raises("max_target must be a non-negative integer", function() options.limits { max_target = math.huge } end)
    check.raises("max_fields must be at most 100000", function() options.limits { max_fields = 100001 } end)
    check.raises("table expected, got number", function() options.limits(5) end)
  end)
end)

describe("options.answer_to_kebab", function()
  local message = options.answer_to_kebab { reason_phrase = "OK", status = 200, keep = false, ["a-b"] = "as it is" }

  it("finds a field by its kebab-case name, with or without a question mark", function()
    assert.equal("OK", message["reason-phrase"])
    assert.equal("OK", message.reason_phrase)
    assert.equal(200, message["status?"])
    assert.is_false(message["keep?"])
    assert.equal("as it is", message["a-b"])
  end)

  it("finds nothing else", function()
    assert.is_nil(message.Status)
    assert.is_nil(message["no-such"])
    assert.is_nil(message[1])
    assert.is_nil(message[true])
  end)

  it("stays a plain table", function()
    local names = {}
    for name in pairs(message) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "a-b", "keep", "reason_phrase", "status" }, names)
    message["new-name"] = 1
    assert.equal(1, rawget(message, "new-name"))
  end)
end)

describe("every module", function()
  it("takes its limits in kebab-case too", function()
    local message, multipart = require "partline.message", require "partline.multipart"
    local reader = require "partline.reader"
    local head = "GET /12345 HTTP/1.1\r\nHost: a\r\n\r\n"
    for _, name in ipairs { "max-target", "max_target", "max-target?" } do
      check.fails("uri-too-long", message.read_request(reader.from_string(head), { [name] = 5 }))
    end
    check.throws("boundary-too-long", multipart.parse, "", "multipart/mixed; boundary=123", { ["max-boundary"] = 2 })
  end)
end)
