-- tries: s.read of a device that never ends
-- stderr: /dev/zero
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

s.read { path = '/dev/zero' }

job:source("in", s.stdin()):sink("out", s.stdout())

return job
