--- What the benchmarks of bodies share.

local reader = require "partline.reader"

local M = {}

--- Seconds of CPU that f() takes: the best of so many rounds.
function M.best(rounds, f)
  local seconds = math.huge
  for _ = 1, rounds do
    collectgarbage()
    local start = os.clock()
    f()
    seconds = math.min(seconds, os.clock() - start)
  end
  return seconds
end

--- A Reader over a function that gives the pieces one by one.
function M.source(pieces)
  local i = 0
  return reader.from_function(function()
    i = i + 1
    return pieces[i]
  end)
end

return M
