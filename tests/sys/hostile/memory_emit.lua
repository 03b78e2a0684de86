-- tries: ten million records of one call
-- stderr: not enough memory
-- seconds: 30
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :flat_map(function(e, emit)
     if e.i ~= 5 then emit(e) return end
     for i = 1, 1e7 do emit { i = 100, j = i } end
   end)
   :sink("out", s.stdout())

return job
