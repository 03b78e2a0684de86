-- tries: a C module
-- stderr: not found
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

require 'lib_c'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
