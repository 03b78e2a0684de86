-- tries: emit of a flat_map, used in a filter behind it
-- out: all but 5
-- stderr: emit used after its call|nil value
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept
job:source("in", s.stdin())
   :flat_map(function(e, emit)
     kept = emit
     emit(e)
   end)
   :filter(function(e)
     if e.i == 5 then kept { i = 50 } end
     return true
   end)
   :sink("out", s.stdout())

return job
