-- tries: a sum beyond 64 bits
-- out: none
-- stderr: overflow
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e) return { i = e.i, v = math.maxinteger } end)
   :key_by {}
   :aggregate { { "i", s.max "i" }, { "sum", s.sum "v" } }
   :sink("out", s.stdout())

return job
