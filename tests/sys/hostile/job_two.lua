-- tries: two jobs in one file
-- stderr: once|two|second|already
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local other = s.job('other')

job:source("in", s.stdin()):sink("out", s.stdout())

return job
