-- The test suites of other implementations, converted to data, when they lie beside the repository (or where
-- PARTLINE_VECTORS says). Their README tells what the classes mean; here:
--
--   firm, soft   must come out as `expected` or `also_allowed`;
--   lenient      a source that accepts what the grammar forbids: requests and parts come out as the grammar says, and
--                responses as the source says, since those are read a little more kindly;
--   policy       a source that rejects what the grammar allows: as `expected`, where our policy is the same.
--
-- Each vector that comes out in another way stands in DIFFERS, below the policy of ours that makes it so. One that no
-- longer differs must leave the table.

local json = require "spec.support.json"
local vectors = require "spec.support.vectors"

local DIR = os.getenv("PARTLINE_VECTORS") or "../shared/vectors"
local EVERY = 3 -- one vector in so many is also fed at every cut

local DIFFERS = {
  ["Transfer codings other than chunked are answered with 501, also before chunked."] = {
    "llhttp/transfer-encoding/post-with-chunked-as-last-transfer-encoding",
    "llhttp/transfer-encoding/post-with-chunked-as-last-transfer-encoding-multiple-headers",
    "aiohttp/request_te_last_chunked",
    "gunicorn/valid/rfc9112_smuggle_gzip_chunked_01",
    "gunicorn/valid/rfc9112_smuggle_te_identity_chunked_01",
    "desync-guardian/more-compliant-tests/correct-te-ok",
    "desync-guardian/more-compliant-tests/transfer-encoding-identity-and-chunked-ok",
    "desync-guardian/more-compliant-tests/multiple-transfer-encoding-headers-in-a-single-request-ok",
    "desync-guardian/rfc-compliant/different-transfer-encoding-headers-combined",
  },
  ["chunked takes no parameters."] = {
    "desync-guardian/rfc-compliant/transfer-encoding-with-a-param-chunked-custom_param",
  },
  ["A target has one of the four forms of RFC 9112 3.2, and the form its method allows."] = {
    "go/readrequest/09",
    "go/readrequest/10",
    "httparse/uri/urltest_058",
    "httparse/uri/urltest_066",
    "httparse/uri/urltest_146",
    "httparse/uri/urltest_174",
  },
  ["Only the form of a target is checked: what it names, and bytes from 0x80, are its server's business."] = {
    "llhttp/uri/disallow-utf-8-in-uri-path-in-strict-mode",
    "gunicorn/invalid/016",
    "http11probe/mal-non-ascii-url",
    "http11probe/mal-url-overlong-utf8",
  },
  ["A head has at most 16 KiB."] = { "gunicorn/valid/024" },
  ["The body of a CONNECT ends where its Content-Length says; the tunnel begins behind it."] = {
    "llhttp/method/connect-with-body",
    "http-parser/connect-with-body-request",
  },
  ["CONNECT is the server's to refuse, not the parser's."] = { "http11probe/comp-method-connect" },
  ["Who reads messages one by one decides himself when to stop after Connection: close."] = {
    "llhttp/connection/keep-alive-/-no-restart-when-keep-alive-is-off-1.0",
  },
  ["A method is any token; which ones exist is the application's business."] = {
    "llhttp/invalid/invalid-method",
    "gunicorn/invalid/003c",
    "http11probe/comp-unknown-method",
    "fast-http/bad-methods/asdf",
    "fast-http/bad-methods/c",
    "fast-http/bad-methods/gem",
    "fast-http/bad-methods/geta",
    "fast-http/bad-methods/m",
    "fast-http/bad-methods/proppatcha",
    "fast-http/bad-methods/px",
    "fast-http/bad-methods/sa",
  },
  ["Repeated fields that frame nothing are joined, not refused."] = {
    "aiohttp/duplicate_non_security_singleton_header_rejected_strict-2",
    "aiohttp/duplicate_non_security_singleton_header_rejected_strict-3",
    "aiohttp/duplicate_non_security_singleton_header_rejected_strict-4",
    "aiohttp/duplicate_non_security_singleton_header_rejected_strict-6",
    "gunicorn/invalid/041",
  },
  ["Names that differ in _ and - stay apart; only CGI variables drop the one with _."] = {
    "gunicorn/invalid/040",
    "gunicorn/invalid/chunked_07",
  },
  ["Trailers that could change framing, routing or authentication are dropped, not refused."] = {
    "gunicorn/invalid/rfc9110_trailer_forbidden_cl_01",
    "gunicorn/invalid/rfc9110_trailer_forbidden_te_01",
  },
  ["An empty Host is valid (RFC 9112 3.2)."] = { "http11probe/comp-host-empty-value" },

  ["Responses may fold fields."] = {
    "httparse/test_forbid_response_with_obsolete_line_folding_at_start",
    "httparse/test_forbid_response_with_obsolete_line_folding_in_middle",
    "httparse/test_forbid_response_with_obsolete_line_folding_in_empty_header",
    "aiohttp/http_response_parser_strict_obs_line_folding",
  },
  ["Responses may end lines in a bare LF."] = {
    "llhttp/sample/no-carriage-ret",
    "llhttp/invalid/invalid-space-after-start-line-/-only-lfs-present-2",
  },
  ["Responses may have white space after a chunk size."] = {
    "llhttp/transfer-encoding/trailing-space-on-chunked-body",
  },
  ["Bare LF is for the heads of responses, not for their trailers."] = {
    "curl/response/test1116-http-get-with-chunked-trailer-without-trailer",
    "curl/response/test1417-http-get-with-chunked-encoding-and-chunked-trailer",
  },
  ["A response with Transfer-Encoding and Content-Length is refused."] = {
    "go/readresponse/06",
    "go/readresponse/20",
    "curl/response/test365-http/1.1-with-chunked-and-content-length-headers",
    "curl/response/test1122-http-get-gzip-transfer-encoded-content",
  },
  ["Transfer-Encoding on HTTP/1.0, without a coding, or with chunked twice, is refused in responses too."] = {
    "go/readresponse/19",
    "aiohttp/http_response_parser_empty_list_te_not_chunked",
    "curl/response/test1482-http-get-with-double-chunked-in-te-header",
    "curl/response/test1483-http-get-with-two-transfer-encoding-chunked-header",
  },
  ["A response's Transfer-Encoding that does not end in chunked runs to the close."] = {
    "curl/response/test1722-http-with-chunked-transfer-encoding-not-listed-las",
  },
  ["Two Content-Length fields are refused even when they agree."] = {
    "go/errors/cl-300-ok",
    "curl/response/test767-http-with-two-content-length-response-header-field",
  },
  ["Content-Length in 204 and 304 frames nothing, so it is not looked at."] = {
    "go/errors/cl-204-ok",
    "go/errors/cl-304-ok",
  },
  ["A status line has version SP three digits, from 100 on, of HTTP/1.x."] = {
    "go/errors/status-001-ok",
    "go/errors/version-http/2.0",
    "go/readresponse/22",
    "llhttp/lenient-version/invalid-http-version-lenient-2",
    "picohttpparser/response/accept-multiple-spaces-between-tokens",
    "fast-http/parser/http-version-0.9",
  },
  ["No white space before the colon and no control characters, in responses either."] = {
    "httparse/test_allow_response_with_whitespace_between_header_name_and_colon",
    "aiohttp/http_response_parser_lenient_headers",
  },
  ["The input may end before a message begins: that is no error, but nil."] = { "go/errors/empty" },

  ["Sizes of 2^63 and more overflow at once, without a wait for their data."] = {
    "picohttpparser/chunked/incomplete-6",
  },

  ["A part of form-data needs one Content-Disposition of that type with a name."] = {
    "busboy/empty-content-type-and-empty-content-disposition",
    "curl/formpost/test1293-multipart-formpost-to-two-urls-the-first-failing",
    "defnull-multipart/segment_missing_name",
    "django/rfc2231-name",
    "django/rfc2231-name-dquoted",
    "go/name-accessors-7",
    "go/nested-mime",
    "rack/does-not-remove-escaped-quotes-in-filenames",
    "rack/filename_and_modification_param",
    "rack/filename_and_no_name",
    "rack/filename_with_escaped_quotes_and_modification_param",
    "rack/limits-very-long-file-name-extensions-in-multipart-tempfiles",
    "rack/parses-quoted-chars-in-name-parameter",
    "rack/parses-unquoted-parameter-values-at-end-of-line",
  },
  ["Quoted strings undo only \\\"; any other backslash is content."] = {
    "curl/formpost/test1189-multipart-formposting-with-backslash-escaping-of-n",
    "rack/parses-content-disposition-with-escaped-parameter-values-in-name",
  },
  ["%22, %0D and %0A are decoded, as browsers encode them, and nothing else."] = {
    "curl/formpost/test1158-http-rfc1867-type-formposting-with-filename-contai",
    "curl/formpost/test39-http-rfc1867-type-formposting-with-filename-and-ty",
    "formidable/special-chars-in-filename/osx-chrome-13",
    "formidable/special-chars-in-filename/osx-safari-5",
    "formidable/special-chars-in-filename/xp-chrome-12",
    "formidable/special-chars-in-filename/xp-safari-5",
    "rack/builds-multipart-filename-with-space",
    "wpt/parse/percent-sequences-in-a-name-are-not-decoded",
  },
  ["Nothing may follow a quoted value but the next parameter."] = {
    "formidable/special-chars-in-filename/osx-firefox-3.6",
  },
  ["A client's path stays in the name; basename() takes it off."] = {
    "busboy/files-with-filenames-containing-paths",
    "defnull-multipart/ie6",
    "python-multipart/param-ie6-path",
    "rack/ie",
    "rack/parses-content-disposition-with-ie-full-paths-in-filename",
  },
  ["filename* never takes the place of filename in form-data."] = {
    "busboy/unicode-filenames",
    "multer/unicode-filename-both",
    "undici/issue-3760-filename-star",
    "undici/issue-4661-extended-first",
    "undici/issue-4661-legacy-first",
    "undici/issue-4661-percent-utf8",
  },
  ["RFC 2231 continuations are not joined."] = { "werkzeug/rfc2231-continuations" },
  ["Names are bytes; none is replaced."] = { "rack/invalid_character" },
  ["A fold is one space, wherever it stands."] = {
    "busboy/folded-header-value",
    "rack/prevents-crlf-injection-in-parameter-values-via-obs-fold",
  },
  ["Part heads may fold (other lists forbid it)."] = { "wpt/fail/obs-fold-continuation-line" },
  ["Control characters in a part's fields: bad-header."] = {
    "wpt/parse/content-type-containing-a-control-character-is-ignored",
    "wpt/parse/other-control-characters-in-a-name",
  },
  ["A delimiter line ends in CRLF; with anything else behind the boundary it is content."] = {
    "commons-fileupload/ie5-mac-bug",
    "defnull-multipart/reject_boundary_in_payload-2",
    "defnull-multipart/reject_boundary_in_payload-3",
  },
  ["The first blank line ends a part's head, also an empty one; another is content."] = {
    "rack/falls-back-to-content-type-for-the-name",
  },
  ["A head needs its blank line: a delimiter is no field."] = {
    "fastify-busboy/multiple-empty-parts-should-get-ignored",
  },
  ["No delimiter at the start of a line: bad-first-boundary, not a mere end of input."] = {
    "defnull-multipart/no_start_boundary",
    "fastify-busboy/dicer-many-wrongboundary",
    "fastify-busboy/empty-form-with-preceding-whitespace",
    "fastify-busboy/empty-form-with-wrong-boundary-extra-y",
    "werkzeug/line-endings-cr",
  },
  ["Bodies whose lines end in LF alone: bad-line-ending."] = {
    "go/line-continuation",
    "go/multipart-lf",
    "werkzeug/capture/ie7-full-path",
    "werkzeug/line-endings-lf",
  },
  ["A nested multipart is content, whatever its Content-Type lacks."] = { "commons-fileupload/mixed-no-boundary" },
  ["Content-Transfer-Encoding is not decoded, so any is fine."] = { "formidable/unknown-cte" },
  ["What stands before the first delimiter is preamble."] = { "python-multipart/bad_initial_boundary" },
  ["The epilogue is not looked at."] = { "wpt/fail/junk-after-close-delimiter" },
}

local ABOUT_HOST = { ["aiohttp/missing_host_header_rejected"] = true }

local reasons = {}
for reason, ids in pairs(DIFFERS) do
  for _, id in ipairs(ids) do
    assert(not reasons[id], id .. " stands in DIFFERS twice")
    reasons[id] = reason
  end
end

-- nil, or how the outcome differs from the one this class must have.
local function verdict(vector, differs, got)
  local why = differs(vector, vector.expected, got)
  if not why then return nil end
  if vector.expected_alt and not differs(vector, vector.expected_alt, got) then return nil end
  for _, outcome in ipairs(vector.also_allowed or {}) do
    if outcome == got.outcome and outcome ~= vector.expected.outcome then return nil end
  end
  local strict = vector.class == "lenient" and vector.kind ~= "response"
  if strict and got.outcome == vector.own_strict:match("^%a+") then return nil end
  return why
end

local function check(vector, run, differs, sampled)
  vector.about_host = ABOUT_HOST[vector.id]
  local why = verdict(vector, differs, run(vector, vectors.whole))
  local reason = reasons[vector.id]
  if reason then
    assert.is_truthy(why, vector.id .. " no longer differs: take it out of DIFFERS")
    return
  end
  assert.is_nil(why and vector.id .. ": " .. why)
  local function again(cut, how)
    why = verdict(vector, differs, run(vector, cut))
    assert.is_nil(why and ("%s, %s: %s"):format(vector.id, how, why))
  end
  again(vectors.bytewise, "byte by byte")
  if sampled then
    for at = 1, math.min(#vector.input - 1, 500) do
      again(function(bytes) return { bytes:sub(1, at), bytes:sub(at + 1) } end, "cut at " .. at)
    end
  end
end

local seen = {}

-- One test for each class of a file: there are more than a thousand vectors, and each failure names its own.
local function declare(name, list, run, differs)
  local classes, names = {}, {}
  for _, vector in ipairs(list) do
    seen[vector.id] = true
    if not classes[vector.class] then
      classes[vector.class] = {}
      table.insert(names, vector.class)
    end
    table.insert(classes[vector.class], vector)
  end
  table.sort(names)
  for _, class in ipairs(names) do
    it(("%s, %s: %d vectors"):format(name, class, #classes[class]), function()
      local failures = {}
      for i, vector in ipairs(classes[class]) do
        local ok, failure = pcall(check, vector, run, differs, i % EVERY == 0)
        if not ok then table.insert(failures, type(failure) == "table" and failure.message or tostring(failure)) end
      end
      assert.equal("", table.concat(failures, "\n"))
    end)
  end
end

local function multipart_vectors()
  local list = {}
  local pipe = assert(io.popen(("ls '%s/multipart'"):format(DIR)))
  for name in pipe:lines() do
    if name:find("%.json$") then
      local vector = json.load(DIR .. "/multipart/" .. name)
      local file = assert(io.open(DIR .. "/multipart/" .. vector.file, "rb"))
      vector.input = file:read("a"):sub(vector.body_offset + 1, vector.body_offset + vector.body_length)
      file:close()
      list[#list + 1] = vector
    end
  end
  pipe:close()
  return list
end

local here = io.open(DIR .. "/requests.json")

describe("vectors", function()
  if not here then return pending("no vectors in " .. DIR) end
  here:close()
  declare("requests", json.load(DIR .. "/requests.json"), vectors.messages, vectors.messages_differ)
  declare("responses", json.load(DIR .. "/responses.json"), vectors.messages, vectors.messages_differ)
  declare("chunked", json.load(DIR .. "/chunked.json"), vectors.chunked, vectors.chunked_differs)
  declare("multipart", multipart_vectors(), vectors.multipart, vectors.multipart_differs)

  it("every id of DIFFERS is a vector", function()
    for id in pairs(reasons) do assert.is_true(seen[id], id) end
  end)
end)
