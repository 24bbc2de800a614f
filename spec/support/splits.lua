--- The same bytes, cut in different ways. What a parser makes of them must not depend on it.
--
--     local splits = require "spec.support.splits"
--     splits(bytes, function(pieces, how) assert.same(want, decode(pieces), how) end)
--     for pieces, how in splits.pieces_of(bytes, case.feed) do ... end
--
-- `pieces` is a list of strings that make up `bytes`; the first or last may be empty (cuts at 0 and at #bytes).
-- `how` says in words how they were cut, for failure messages.

local M = {}

-- Above `limit` bytes not every cut in two is tried: all within `edge` bytes of either end, and between them each
-- `stride`-th one; the stride is odd, so that it does not keep step with lines or blocks of even length.
-- Above `bytewise_limit` bytes, blocks of 1021 take the place of single bytes.
local DEFAULTS = { limit = 4096, edge = 256, bytewise_limit = 1024 * 1024 }

local function with_defaults(opts, n)
  local all = setmetatable({}, { __index = function(_, k) return opts and opts[k] or DEFAULTS[k] end })
  all.stride = opts and opts.stride or (n <= all.limit and 1 or (n // 2048) | 1)
  return all
end

local function blocks(bytes, size)
  local pieces = {}
  for i = 1, #bytes, size do
    pieces[#pieces + 1] = bytes:sub(i, i + size - 1)
  end
  return pieces
end

local function cut_at(bytes, cuts)
  local pieces, from, said = {}, 0, {}
  for i, cut in ipairs(cuts) do
    local at = cut < 0 and #bytes + cut or cut
    assert(at >= from and at <= #bytes, "cuts must be in order and inside the bytes")
    pieces[#pieces + 1] = bytes:sub(from + 1, at)
    from, said[i] = at, at
  end
  pieces[#pieces + 1] = bytes:sub(from + 1)
  return pieces, ("cut at %s of %d"):format(table.concat(said, ", "), #bytes)
end

local function bytewise(bytes, opts)
  if #bytes > opts.bytewise_limit then
    return blocks(bytes, 1021), "in blocks of 1021"
  end
  return blocks(bytes, 1), "byte by byte"
end

local function each_split(bytes, opts)
  local n = #bytes
  coroutine.yield({ bytes }, "whole")
  local at = 0
  while at <= n do
    coroutine.yield(cut_at(bytes, { at }))
    local inner = at >= opts.edge and at < n - opts.edge
    at = inner and math.min(at + opts.stride, n - opts.edge) or at + 1
  end
  coroutine.yield(bytewise(bytes, opts))
end

--- Iterates over `pieces, how` for a `feed` as in spec/data/cases.json: "whole", "bytewise", "every-split",
-- "blocks-of-N", or a list of cut offsets (a negative one counts from the end).
function M.pieces_of(bytes, feed, opts)
  opts = with_defaults(opts, #bytes)
  local block = type(feed) == "string" and feed:match("^blocks%-of%-(%d+)$")
  return coroutine.wrap(function()
    if feed == "whole" then
      coroutine.yield({ bytes }, "whole")
    elseif feed == "bytewise" then
      coroutine.yield(bytewise(bytes, opts))
    elseif feed == "every-split" then
      each_split(bytes, opts)
    elseif block then
      coroutine.yield(blocks(bytes, tonumber(block)), "in blocks of " .. block)
    elseif type(feed) == "table" then
      coroutine.yield(cut_at(bytes, feed))
    else
      error("unknown feed: " .. tostring(feed))
    end
  end)
end

--- The bytes that a `generate` field stands for: prefix, repeat × count, suffix.
function M.generate(spec)
  return (spec.prefix or "") .. spec["repeat"]:rep(spec.count) .. (spec.suffix or "")
end

--- Calls f(pieces, how) for every way to cut `bytes`. Options: limit, edge, stride, bytewise_limit (see above).
function M.splits(bytes, f, opts)
  for pieces, how in M.pieces_of(bytes, "every-split", opts) do
    f(pieces, how)
  end
end

return setmetatable(M, { __call = function(_, ...) return M.splits(...) end })
