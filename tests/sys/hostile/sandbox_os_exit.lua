-- tries: os.exit
-- stderr: 'exit' is available with --unsafe only
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

os.exit(0)

job:source("in", s.stdin()):sink("out", s.stdout())

return job
