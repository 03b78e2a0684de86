local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin())
   :event_time({ field = "ts" }, { name = "clock", on_error = "skip" })
   :sink("out", s.stdout())
return job
