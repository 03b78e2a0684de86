-- tries: a module with a fault
-- stderr: lib_fault\.lua:2
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

require 'lib_fault'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
