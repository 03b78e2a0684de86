local s = require "streamlua"
local job = s.job "tenant-metrics"
local src = s.stdin { format = "json" }
job:source("events", src)
   :event_time { field = "ts", out_of_orderness = "5s", idle = "30s" }
   :filter(function(e) return e.value ~= nil end)
   :key_by { "tenant_id", "metric_name", "dimensions" }
   :window(s.tumbling "1m")
   :aggregate { total = s.sum "value", n = s.count(), mean = s.avg "value",
                p99 = s.percentile("value", 0.99), users = s.distinct "user" }
   :sink("out", s.stdout())
return job
