-- tries: the same, emitted
-- stderr: contains itself
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :flat_map(function(e, emit)
     if e.i ~= 5 then emit(e) return end
     local t = { i = 5 }
     t.t = t
     emit(t)
   end)
   :sink("out", s.stdout())

return job
