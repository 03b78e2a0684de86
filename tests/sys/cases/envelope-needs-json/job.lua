local s = require "streamlua"
local job = s.job "t"
job:source("a", s.stdin())
   :sink("out", s.stdout { envelope = true, format = "text" })
return job
