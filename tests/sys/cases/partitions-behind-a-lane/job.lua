local s = require "streamlua"
local job = s.job("t", { parallelism = 1 })
job:source("in", s.file { path = "*.jsonl" }):filter(function(e) return e.ts % 30 ~= 0 end):event_time { field = "ts", chaining = "never" }
   :key_by "k" :window(s.tumbling "5s"):aggregate { n = s.count() }:sink("out", s.stdout())
return job
