local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin { bigint = "float" }):event_time { field = "ts" }
   :key_by "m" :window(s.tumbling "1s") :aggregate { n = s.count(), d = s.count_distinct "m" }
   :sink("out", s.stdout())
return job
