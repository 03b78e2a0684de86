local s = require "streamlua"
local job = s.job "t"
job:source("gen", s.generator { count = 100000, fields = {
     k = s.gen.cycle { "hot", "hot", "hot", "hot", "cold" }, ts = s.gen.time { start = 0, step = "1ms" }, v = s.gen.sequence {} } })
   :event_time { field = "ts" } :key_by "k" :window(s.tumbling "1m")
   :aggregate { n = s.count(), max = s.max "v" } :sink("out", s.stdout())
return job
