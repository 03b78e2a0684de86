local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin())
   :filter(function() return true end, { name = "f" }, { name = "g" })
   :sink("out", s.stdout())
return job
