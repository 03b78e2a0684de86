-- tries: emit, used in the next call
-- stderr-not: user_error
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept

job:source("in", s.stdin())
   :flat_map(function(e, emit)
     if e.i > 5 then return kept and emit(e) end
     if e.i ~= 5 then emit(e) return end
     kept = emit
   end)
   :sink("out", s.stdout())

return job
