-- tries: what is there with --unsafe
-- args: --unsafe
-- exit: 0
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

assert(io.open and debug.traceback and os.getenv and os.exit and package.loadlib)
assert(string.dump == nil and load(string.char(27) .. 'Lua') == nil)

job:source("in", s.stdin()):sink("out", s.stdout())

return job
