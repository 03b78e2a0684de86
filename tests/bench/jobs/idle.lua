-- A job with everything in it and nothing to do.
local s = require "streamlua"

local job = s.job("bench-idle")

job:source("events", s.kafka {
     topic = s.param("topic", "bench"), start = "latest",
   })
   :event_time { field = "ts" }
   :filter(function(e) return e.value ~= nil end)
   :key_by { "tenant_id", "metric_name" }
   :window(s.tumbling "1m")
   :aggregate { n = s.count(), sum = s.sum "value" }
   :sink("out", s.kafka { topic = s.param("out", "bench-out") })

return job
