-- tries: reduce that does not end
-- out: any
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :reduce(function(a, b) while true do end end, { name = "r" })
   :sink("out", s.stdout())

return job
