-- Count per user and 10 s, without output: what skew does to the slots.
local s = require "streamlua"

local job = s.job("bench-hotkey", {
  parallelism = s.param("p", 2),
  agg_phase_strategy = s.param("strategy", "AUTO"),
})

job:source("events", s.kafka {
     topic = s.param("topic", "bench-zipf"), start = "earliest",
   })
   :event_time { field = "ts" }
   :key_by "user"
   :window(s.tumbling "10s")
   :aggregate { n = s.count(), sum = s.sum "value" }
   :sink("out", s.blackhole {})

return job
