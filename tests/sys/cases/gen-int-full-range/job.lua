local s = require "streamlua"
local job = s.job "t"
job:source("in", s.generator { count = 1, fields = { x = s.gen.int(math.mininteger, math.maxinteger) } })
   :filter(function(e) return math.type(e.x) == "integer" end)
   :select { { "ok", function() return true end } }
   :sink("out", s.stdout())
return job
