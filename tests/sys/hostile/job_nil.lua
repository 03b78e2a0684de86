-- tries: to return nothing
-- exit: 65
-- out: none
-- stderr: return job
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source('in', s.stdin()):sink('out', s.stdout())
