-- tries: an upvalue that grows with every record
-- input: 600
-- out: some
-- stderr: not enough memory
-- seconds: 20
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept = {}

job:source("in", s.stdin())
   :filter(function(e)
     kept[#kept + 1] = ('x'):rep(65536) .. e.i
     return true
   end)
   :sink("out", s.stdout())

return job
