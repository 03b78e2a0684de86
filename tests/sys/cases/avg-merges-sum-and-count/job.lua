local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.tumbling "1m")
   :aggregate { mean = s.avg "v" } :sink("out", s.stdout())
return job
