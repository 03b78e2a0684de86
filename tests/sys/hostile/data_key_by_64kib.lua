-- tries: a key above 64 KiB
-- out: all but 5
-- stderr: 64 KiB
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :key_by { { "k", function(e) return e.i == 5 and ('x'):rep(70000) or e.i end } }
   :aggregate { { "i", s.max "i" } }
   :select { "i" }
   :sink("out", s.stdout())

return job
