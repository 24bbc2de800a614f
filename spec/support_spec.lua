local json = require "spec.support.json"
local splits = require "spec.support.splits"

local function collect(bytes, feed, opts)
  local all, hows = {}, {}
  for pieces, how in splits.pieces_of(bytes, feed, opts) do
    all[#all + 1], hows[#hows + 1] = pieces, how
    assert.equal(bytes, table.concat(pieces), how)
  end
  return all, hows
end

describe("splits", function()
  it("tries whole, every cut in two, and single bytes", function()
    local all, hows = {}, {}
    splits("abc", function(pieces, how)
      all[#all + 1], hows[#hows + 1] = pieces, how
    end)
    assert.same({ { "abc" }, { "", "abc" }, { "a", "bc" }, { "ab", "c" }, { "abc", "" }, { "a", "b", "c" } }, all)
    assert.equal("whole", hows[1])
    assert.equal("cut at 1 of 3", hows[3])
    assert.equal("byte by byte", hows[6])
  end)

  it("takes empty input", function()
    assert.same({ { "" }, { "", "" }, {} }, (collect("", "every-split")))
  end)

  it("takes strides through long input, but every cut near both ends", function()
    local bytes = ("x"):rep(10000)
    local cuts = {}
    for _, pieces in ipairs((collect(bytes, "every-split", { edge = 100, stride = 501 }))) do
      if #pieces == 2 then cuts[#pieces[1]] = true end
    end
    for at = 0, 100 do
      assert.is_true(cuts[at] and cuts[10000 - at], at)
    end
    assert.is_true(cuts[601])
    assert.is_nil(cuts[602])
  end)

  it("keeps the number of cuts in bounds", function()
    local count = #(collect(("x"):rep(100000), "every-split"))
    assert.is_true(count > 2000 and count < 3000, count)
  end)
end)

describe("splits.pieces_of", function()
  it("reads the feeds of the case file", function()
    assert.same({ { "abcd" } }, (collect("abcd", "whole")))
    assert.same({ { "a", "b", "c", "d" } }, (collect("abcd", "bytewise")))
    assert.same({ { "abc", "d" } }, (collect("abcd", "blocks-of-3")))
    assert.same({ { "a", "bc", "d" } }, (collect("abcd", { 1, 3 })))
  end)

  it("counts negative cuts from the end", function()
    local all, hows = collect("abcd", { -2, -1 })
    assert.same({ { "ab", "c", "d" } }, all)
    assert.same({ "cut at 2, 3 of 4" }, hows)
  end)

  it("refuses what it does not know", function()
    assert.has_error(function() collect("abcd", "sideways") end)
    assert.has_error(function() collect("abcd", { 3, 1 }) end)
    assert.has_error(function() collect("abcd", { 5 }) end)
  end)
end)

describe("splits.generate", function()
  it("repeats the middle", function()
    assert.equal("<ababab>", splits.generate { prefix = "<", ["repeat"] = "ab", count = 3, suffix = ">" })
    assert.equal("aa", splits.generate { ["repeat"] = "a", count = 2 })
  end)
end)

describe("json", function()
  it("turns characters back into bytes", function()
    assert.equal("\0a\x7F\x80\xE9\xFF", json.decode('["\\u0000a\\u007f\\u0080\u{E9}\\u00ff"]')[1])
  end)

  it("leaves characters above U+00FF alone", function()
    assert.equal("\u{2013}\xC4", json.decode('["\u{2013}\u{C4}"]')[1])
  end)

  it("drops nulls and keeps whole numbers whole", function()
    local value = json.decode('{"a": null, "n": 12, "x": 1.5, "t": true, "l": [[]]}')
    assert.same({ n = 12, x = 1.5, t = true, l = { {} } }, value)
    assert.equal("integer", math.type(value.n))
  end)

  it("raises on bad JSON", function()
    assert.has_error(function() json.decode("{") end)
  end)
end)
