-- tries: to emit and fail
-- stderr: late
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :flat_map(function(e, emit)
     if e.i ~= 5 then emit(e) return end
     for i = 1, 1000 do emit { i = 100 + i } end
     error 'late'
   end)
   :sink("out", s.stdout())

return job
