-- What server and client share of a connection: the same behaviour over a descriptor and over recv and send.

local connection = require "partline.connection"
local loop_module = require "partline.loop"
local transport = require "partline.transport.luasocket"

-- A connected pair of transport objects; hidden: the second one shows no descriptor, as with TLS.
local function pair(loop, hidden)
  local listener = assert(transport.listen { loop = loop })
  local host, port = listener:getsockname()
  local a = assert(transport.connect { host = host, port = port, loop = loop })
  local b = assert(listener:accept())
  listener:close()
  if hidden then b.fd = nil end
  return a, b
end

for _, hidden in ipairs { false, true } do
  describe(hidden and "a connection without a descriptor" or "a connection with a descriptor", function()
    local loop
    before_each(function() loop = loop_module.new() end)
    after_each(function() loop.close() end)

    local function both(f, opts)
      loop.run(function()
        local a, b = pair(loop, hidden)
        f(connection.new(a, opts), connection.new(b, opts))
        a:close()
        b:close()
      end)
    end

    it("carries bytes both ways", function()
      both(function(a, b)
        assert(a.writer:write("hello ", "world\n"))
        assert(a.writer:flush())
        assert.equal("hello world", b.reader:read("l"))
        assert(b.writer:write("back"):flush())
        assert.equal("back", a.reader:read(4))
        assert.same({ "open", 12 }, { b.reader:status() })
        assert.equal(12, (a.writer:status()))
      end)
    end)

    it("sends nothing before it is flushed, as long as it is little", function()
      both(function(a, b)
        a:patient(0.05)
        b.writer:write("held")
        assert.same({ 0, 4 }, { b.writer:status() })
        assert.equal("timeout", (select(3, a.reader:read(1))))
        b.writer:discard()
        b.writer:write("sent"):flush()
        assert.equal("sent", a.reader:read(4))
      end)
    end)

    it("waits no longer than it is told: without progress, or in all", function()
      both(function(_, b)
        local function took(f)
          local start = loop.now()
          local _, _, code = f()
          assert.equal("timeout", code)
          return loop.now() - start
        end
        b:patient(0.1)
        local t = took(function() return b.reader:read(1) end)
        assert.is_true(t > 0.08 and t < 0.5, t)
        b:patient(nil, loop.now() + 0.1)
        t = took(function() return b.reader:read(1) end)
        assert.is_true(t > 0.08 and t < 0.5, t)
        b:patient(0.1, loop.now() + 5)
        t = took(function() return b.reader:read(1) end)
        assert.is_true(t > 0.08 and t < 0.5, t)
        b:patient(5, loop.now() + 0.1)
        t = took(function() return b.reader:read(1) end)
        assert.is_true(t > 0.08 and t < 0.5, t)
      end)
    end)

    it("gives up on a peer that takes nothing", function()
      both(function(_, b)
        local start = loop.now()
        local ok, _, code = b.writer:write(("x"):rep(30000000))
        if ok then ok, _, code = b.writer:flush() end
        assert.is_nil(ok)
        assert.equal("timeout", code)
        assert.equal(code, (select(3, b.writer:status())))
        assert.is_true(loop.now() - start < 1)
      end, { write_timeout = 0.1 })
    end)

    it("moves 32 MB to a slow receiver, byte for byte", function()
      local block = {}
      for i = 0, 4095 do block[#block + 1] = ("%07d\n"):format(i) end
      local body = table.concat(block):rep(1024)
      both(function(a, b)
        loop.spawn(function()
          assert(b.writer:write(body))
          assert(b.writer:flush())
          b:close()
        end)
        local got, n = {}, 0
        repeat
          local piece = a.reader:read_some()
          got[#got + 1] = piece
          n = n + 1
          if n % 50 == 0 then loop.sleep(0.001) end
        until not piece
        assert.is_true(table.concat(got) == body)
      end)
    end)

    it("lets others run while a fast peer sends, and while it takes", function()
      both(function(a, b)
        local ticks, over = 0, false
        loop.spawn(function()
          local piece = ("x"):rep(65536)
          for _ = 1, 512 do a.writer:write(piece) end
          a.writer:flush()
          a.conn:shutdown("send")
        end)
        loop.spawn(function()
          while not over do
            ticks = ticks + 1
            loop.sleep(0)
          end
        end)
        assert.equal(512 * 65536, b.reader:skip())
        over = true
        assert.is_true(ticks >= 16, ticks)
      end)
    end)

    it("reads all that lies ready, however much, without another event", function()
      both(function(a, b)
        -- more than one turn's worth, all of it there before the first read, and nothing after it
        b.conn.sock:setoption("recv-buffer-size", 4 * 1024 * 1024)
        loop.spawn(function()
          a.writer:write(("x"):rep(3 * 1024 * 1024)):flush()
        end)
        loop.sleep(0.1)
        b:patient(1)
        assert.equal(3 * 1024 * 1024, b.reader:skip(3 * 1024 * 1024))
      end)
    end)

    it("lingers: what was sent arrives although bytes are left unread", function()
      both(function(a, b)
        a.writer:write(("x"):rep(200000)):flush()
        b.reader:read(1)
        b.writer:write("answer"):flush()
        loop.spawn(function() b:linger(1000000, 0.3) end)
        assert.equal("answer", a.reader:read("a"))
      end)
    end)

    it("lingers no longer and no further than it is told", function()
      both(function(a, b)
        loop.spawn(function()
          while a.writer:write(("x"):rep(65536)) do end -- luacheck: ignore 542
        end)
        local start = loop.now()
        b:linger(1000000, 5)
        assert.is_true(loop.now() - start < 1)
        assert.is_nil(b.conn.sock)
      end)
      both(function(_, b)
        local start = loop.now()
        b:linger(1000000, 0.1)
        local t = loop.now() - start
        assert.is_true(t > 0.08 and t < 1, t)
      end)
    end)

    it("aborts with a reset", function()
      both(function(a, b)
        b.writer:write("part"):flush()
        assert.equal("part", a.reader:read(4))
        b:abort()
        assert.equal("read-failed", (select(3, a.reader:read(1))))
      end)
    end)

    it("closes as often as one likes, and says so afterwards", function()
      both(function(_, b)
        b:close()
        b:close()
        b:abort()
        b:linger(1, 1)
        assert.equal("closed", (select(3, b.reader:read(1))))
        assert.equal("closed", (select(3, b.writer:write("x"))))
        assert.equal("closed", (select(3, b.writer:status())))
      end)
    end)

    it("tells a reader that waits when somebody else closes it", function()
      both(function(_, b)
        local code
        loop.spawn(function() code = select(3, b.reader:read(1)) or "end" end)
        loop.sleep(0.01)
        b.conn:close()
        loop.sleep(0.01)
        assert.equal("closed", code)
      end)
    end)
  end)
end

describe("connection.reader and connection.writer", function()
  it("stand alone, with a timeout", function()
    local loop = loop_module.new()
    loop.run(function()
      local a, b = pair(loop)
      local r, w = connection.reader(a, { timeout = 0.05 }), connection.writer(b)
      w:write("x"):flush()
      assert.equal("x", r:read(1))
      assert.equal("timeout", (select(3, r:read(1))))
      a:close()
      b:close()
    end)
    loop.close()
  end)

  it("give first what LuaSocket had read ahead", function()
    local socket = require "socket"
    local listener = assert(socket.bind("127.0.0.1", 0))
    local host, port = listener:getsockname()
    local a = assert(socket.connect(host, port))
    local b = assert(listener:accept())
    a:send("line\nrest")
    assert.equal("line", b:receive("*l"))
    local conn = assert(transport.wrap(b))
    local r = connection.reader(conn)
    assert.equal("rest", r:read(4))
    conn:close()
    a:close()
    listener:close()
  end)
end)
