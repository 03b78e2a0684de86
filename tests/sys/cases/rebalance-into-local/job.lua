local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin()):event_time { field = "ts" }:rebalance()
   :key_by "k":window(s.tumbling "10s"):aggregate { n = s.count(), v = s.distinct "v" }
   :sink("out", s.stdout())
return job
