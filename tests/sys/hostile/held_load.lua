-- tries: a pattern that takes for ever, while the file is loaded
-- exit: -15
-- term-after: 1
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

local found = ('a'):rep(200):find(('.-'):rep(20) .. 'b')

job:source("in", s.stdin()):sink("out", s.stdout())

return job
