-- tries: a module above the folder
-- stderr: no module name|not found
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

require '../hostile/lib_global'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
