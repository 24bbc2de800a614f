-- Written by `make rockspec`: edit scripts/rockspec.lua instead.
rockspec_format = "3.0"
package = "partline"
version = "scm-1"
source = {
  url = "git+https://example.org/partline/partline.git",
}
description = {
  summary = "A streaming HTTP/1.1 toolkit: multipart uploads part by part, in constant memory",
  detailed = "A C core that parses heads, codes chunked bodies and scans multipart boundaries, " ..
    "wrapped as a Lua module with Readers and a lazy parts iterator. LuaSocket provides the sockets.",
  license = "MIT",
  labels = { "http", "multipart", "streaming", "parser" },
}
dependencies = {
  "lua >= 5.3, < 5.6",
  "luasocket >= 3.0",
}
build = {
  type = "builtin",
  modules = {
    ["partline.core"] = {
      sources = {
        "csrc/bind/lpl_ask.c",
        "csrc/bind/lpl_base.c",
        "csrc/bind/lpl_copy.c",
        "csrc/bind/lpl_core.c",
        "csrc/bind/lpl_date.c",
        "csrc/bind/lpl_fields.c",
        "csrc/bind/lpl_head.c",
        "csrc/bind/lpl_lane.c",
        "csrc/bind/lpl_message.c",
        "csrc/bind/lpl_mpart.c",
        "csrc/bind/lpl_parse.c",
        "csrc/bind/lpl_poll.c",
        "csrc/bind/lpl_push.c",
        "csrc/bind/lpl_push_parts.c",
        "csrc/bind/lpl_random.c",
        "csrc/bind/lpl_reader.c",
        "csrc/bind/lpl_serve.c",
        "csrc/bind/lpl_source.c",
        "csrc/bind/lpl_text.c",
        "csrc/bind/lpl_url.c",
        "csrc/bind/lpl_writer.c",
        "csrc/core/pl_base.c",
        "csrc/core/pl_buf.c",
        "csrc/core/pl_char.c",
        "csrc/core/pl_chunk.c",
        "csrc/core/pl_framing.c",
        "csrc/core/pl_head.c",
        "csrc/core/pl_mpart.c",
        "csrc/core/pl_names.c",
        "csrc/core/pl_param.c",
        "csrc/core/pl_scan.c",
        "csrc/core/pl_simd.c",
        "csrc/core/pl_simd_avx2.c",
        "csrc/core/pl_simd_avx512.c",
        "csrc/core/pl_simd_neon.c",
        "csrc/core/pl_simd_sse2.c",
        "csrc/core/pl_url.c",
      },
      incdirs = { "csrc/core", "csrc/bind" },
    },
    ["partline.answering"] = "lua/partline/answering.lua",
    ["partline.build"] = "lua/partline/build.lua",
    ["partline.client"] = "lua/partline/client.lua",
    ["partline.client.coding"] = "lua/partline/client/coding.lua",
    ["partline.client.dial"] = "lua/partline/client/dial.lua",
    ["partline.client.exchange"] = "lua/partline/client/exchange.lua",
    ["partline.client.pool"] = "lua/partline/client/pool.lua",
    ["partline.client.proxy"] = "lua/partline/client/proxy.lua",
    ["partline.client.redirect"] = "lua/partline/client/redirect.lua",
    ["partline.client.request"] = "lua/partline/client/request.lua",
    ["partline.client.tls"] = "lua/partline/client/tls.lua",
    ["partline.connection"] = "lua/partline/connection.lua",
    ["partline.form"] = "lua/partline/form.lua",
    ["partline.headers"] = "lua/partline/headers.lua",
    ["partline"] = "lua/partline/init.lua",
    ["partline.loop"] = "lua/partline/loop.lua",
    ["partline.message"] = "lua/partline/message.lua",
    ["partline.multipart"] = "lua/partline/multipart.lua",
    ["partline.options"] = "lua/partline/options.lua",
    ["partline.parser"] = "lua/partline/parser.lua",
    ["partline.reader"] = "lua/partline/reader.lua",
    ["partline.server"] = "lua/partline/server.lua",
    ["partline.transport.luasocket"] = "lua/partline/transport/luasocket.lua",
    ["partline.url"] = "lua/partline/url.lua",
    ["partline.writing"] = "lua/partline/writing.lua",
  },
}
test = {
  type = "command",
  command = "make test",
}
