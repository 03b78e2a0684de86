local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin { format = "csv", fields = { "i:int", "f:float" }, on_error = "skip" })
   :sink("out", s.stdout())
return job
