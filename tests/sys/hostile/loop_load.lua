-- tries: text that does not end
-- stderr: took longer|too many local|not enough memory|overflow
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(load(function() return 'local x = 1 ' end))
   end)
   :sink("out", s.stdout())

return job
