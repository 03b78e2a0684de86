-- Tumbling 10 s count, sum, avg and max over 10,000 keys, Kafka to Kafka.
local s = require "streamlua"

local delivery = s.param("delivery", "at_least_once")
local prefix = s.param("prefix", "bench")

local job = s.job("bench-count10k", {
  parallelism = s.param("p", 1),
  checkpoint = { interval = s.param("interval", "10s") },
})

job:source("events", s.kafka {
     topic = s.param("topic", "bench"), start = s.param("start", "earliest"),
   })
   :event_time { field = "ts" }
   :key_by { "tenant_id", "metric_name" }
   :window(s.tumbling(s.param("window", "10s")))
   :aggregate {
     n = s.count(), sum = s.sum "value", avg = s.avg "value",
     max = s.max "value",
   }
   :sink("out", s.kafka {
     topic = s.param("out", "bench-out"), delivery = delivery,
     transactional_id_prefix = delivery == "exactly_once" and prefix or nil,
   })

return job
