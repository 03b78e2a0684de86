local s = require "streamlua"
local job = s.job("t", { on_error = "skip" })
job:source("in", s.source { read = function(position)
   if position == 2 then return nil end
   return { { a = 1 }, 5, { a = 2 }, { f = print } }, (position or 0) + 1
end }):sink("out", s.stdout())
return job
