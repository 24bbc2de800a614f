--- Assertions that several specs share: failures as three values, errors at the caller's line, flat memory.

local partline = require "partline"
local assert = require "luassert"

local M = {}

--- A failure has three values: nil, a text, a code that exists. → the text.
--     check.fails("closed", r:read(1))
function M.fails(code, ...)
  assert.equal(3, select("#", ...))
  local value, text, got = ...
  assert.is_nil(value)
  assert.is_string(text)
  assert.equal(code, got)
  assert.is_table(partline.errors[code])
  return text
end

--- f raises at a line of its own, with this text.
function M.raises(text, f)
  local ok, err = pcall(f)
  assert.is_false(ok, "nothing was raised")
  local info = debug.getinfo(f, "S")
  local file, line, said = tostring(err):match("^(.-):(%d+): (.*)$")
  assert.is_truthy(file and info.short_src:find(file, 1, true), "raised elsewhere: " .. tostring(err))
  line = tonumber(line)
  assert.is_true(line >= info.linedefined and line <= info.lastlinedefined, "raised at line " .. line .. ": " .. said)
  assert.is_truthy(said:find(text, 1, true), said)
end

--- f raises an error object with this code, the status that belongs to it, and its message as text. → the object.
function M.throws(code, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, "nothing was raised")
  assert.is_table(err, tostring(err))
  assert.equal(code, err.code)
  assert.equal(partline.errors[code].status, err.status)
  assert.is_string(err.message)
  assert.equal(err.message, tostring(err))
  return err
end

--- Runs f with the collector stopped: whatever it makes stays. Fails when that is more than `most` KiB of Lua's memory.
function M.makes_no_garbage(most, f)
  collectgarbage()
  collectgarbage("stop")
  local before = collectgarbage("count")
  local ok, err = pcall(f)
  local grown = collectgarbage("count") - before
  collectgarbage("restart")
  if not ok then error(err, 0) end
  assert.is_true(grown < most, ("%.1f KiB of garbage"):format(grown))
end

return M
