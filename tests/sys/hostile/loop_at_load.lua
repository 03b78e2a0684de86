-- tries: a loop while the file is loaded
-- stderr: loading took longer than load_timeout \(500 ms\)
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", load_timeout = "500ms" },
})

while true do end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
