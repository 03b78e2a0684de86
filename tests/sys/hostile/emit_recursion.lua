-- tries: emit in what emit reads
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :flat_map(function(e, emit)
     if e.i ~= 5 then emit(e) return end
     emit(setmetatable({ i = 5 }, { __index = function() emit(e) end, __pairs = function() emit(e) end }))
   end)
   :sink("out", s.stdout())

return job
