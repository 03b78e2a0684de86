-- tries: a module by its absolute path
-- stderr: no module name|not found
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

require '/etc/hostname'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
