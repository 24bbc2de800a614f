--- What spec/support/feed.lua tells of bytes read, told by the push parsers: the same shape, to be compared.
--
--     assert.same(push.plain(feed.request(feed.reader(pieces, true))), push.request(pieces, true))

local partline = require "partline"
local feed = require "spec.support.feed"
local parser = require "partline.parser"

local M = {}

--- An outcome of feed without what only a Reader can tell.
function M.plain(out)
  out.arrived, out.message, out.interim_heads = nil, nil, nil
  return out
end

local function refused(out, text, code)
  assert(type(text) == "string" and #text > 0, "a failure has a message")
  out.result, out.error, out.status = "error", code, partline.errors[code].status
end

-- Feeds the pieces until `done()`, then the end. → the number of bytes used.
local function feed_all(out, p, pieces, eof, done)
  local used = 0
  for _, piece in ipairs(pieces) do
    local n, text, code = p:feed(piece)
    if not n then return refused(out, text, code) end
    assert(n >= 0 and n <= #piece, "more used than there is")
    used = used + n
    if done() then return used end
    assert(n == #piece, "it stops behind a message only")
  end
  if not eof then
    out.result = "need-more"
    return nil
  end
  local ok, text, code = p:finish()
  if not ok then return refused(out, text, code) end
  return used
end

local function collector(out)
  local pieces = {}
  return function(piece)
    assert(#piece > 0, "an empty piece")
    pieces[#pieces + 1] = piece
    out.body = table.concat(pieces)
  end
end

local function message(out, p, pieces, eof, state)
  local used = feed_all(out, p, pieces, eof, function() return state.finished end)
  if state.finished then
    out.result, out.used, out.body = "ok", used, out.body or ""
  elseif used then
    out.result = "end"
  elseif state.framing and state.framing ~= "none" and not out.body then
    out.body = ""
  end
  return out
end

local function common(out, m, about, state)
  out.headers, out.keep_alive, out.upgrade = feed.fields(m.headers), about.keep_alive, about.upgrade
  out.framing = about.framing == "close" and "until-close" or about.framing
  out.version = ("%d.%d"):format(m.protocol_version.major, m.protocol_version.minor)
  state.framing = about.framing
end

local function callbacks(out, state)
  return {
    on_body = collector(out),
    on_trailers = function(headers) out.trailers = feed.fields(headers) end,
    on_finish = function()
      assert(not state.finished, "finished twice")
      state.finished = true
      if state.framing == "chunked" then out.trailers = out.trailers or {} end
    end,
  }
end

--- method, target, path, query, version, headers, framing, body, trailers, keep_alive, expect, upgrade, used
function M.request(pieces, eof, opts)
  local out, state = {}, {}
  local on = callbacks(out, state)
  on.on_head = function(request, about)
    out.method, out.target, out.path, out.query = request.method, request.target, request.path, request.query
    out.expect = about.expect
    common(out, request, about, state)
  end
  return message(out, parser.request(on, opts), pieces, eof, state)
end

--- code, reason, version, headers, framing, body, trailers, keep_alive, upgrade, interim, used
function M.response(pieces, eof, method, opts)
  local out, state = { interim = {} }, {}
  local on = callbacks(out, state)
  on.on_interim = function(response) table.insert(out.interim, response.status) end
  on.on_head = function(response, about)
    out.code, out.reason = response.status, response.reason_phrase
    common(out, response, about, state)
  end
  local p = parser.response(on, opts)
  p:method(method)
  return message(out, p, pieces, eof, state)
end

local CHUNKED = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

--- body, trailers
function M.chunked(pieces, eof, opts)
  local out, state = {}, { framing = "chunked" }
  local p = parser.request(callbacks(out, state), opts)
  assert(p:feed(CHUNKED) == #CHUNKED)
  return message(out, p, pieces, eof, state)
end

--- parts
function M.multipart(pieces, eof, content_type, limits)
  local out, over = { parts = {} }, false
  local p, text, code = parser.multipart(content_type, {
    on_part = function(name, headers, meta, into)
      local part = {
        name = name, filename = meta.filename, filename_ext = meta["filename*"], type = meta.type,
        length = meta.length, headers = feed.fields(headers), body = "",
      }
      table.insert(out.parts, part)
      local collect = collector(part)
      into(function(piece)
        assert(part == out.parts[#out.parts], "content of a part that is over")
        if piece then collect(piece) end
      end)
    end,
    on_finish = function() over = true end,
  }, limits)
  if not p then
    refused(out, text, code)
    return out
  end
  local used = feed_all(out, p, pieces, eof, function() return false end)
  assert(not used or over, "an end without on_finish")
  if over then out.result = "ok" end
  return out
end

return M
