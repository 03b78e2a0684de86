-- tries: s.read of a folder
-- stderr: .
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

s.read { path = '.' }

job:source("in", s.stdin()):sink("out", s.stdout())

return job
