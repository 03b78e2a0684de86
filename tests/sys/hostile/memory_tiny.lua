-- tries: a cap below what is in use
-- stderr: at least "1MiB"
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "1KiB", call_timeout = "60s" },
})



job:source("in", s.stdin()):sink("out", s.stdout())

return job
