-- Per-minute metrics of each tenant, metric and set of dimensions.
--
-- As it stands it needs nothing: 100,000 generated events in, lines on
-- stdout. With Kafka on both sides:
--
--   streamlua run jobs/tenant_metrics.lua --bootstrap-servers HOST:9092 \
--     --set input=kafka --set output=kafka
--
-- Rows in Kafka are there exactly once, whatever is killed meanwhile; their
-- readers need isolation.level=read_committed, and see a row up to 10 s after
-- its window fired. --set delivery=at_least_once: at once, but maybe twice.
local s = require "streamlua"

local input    = s.param("input", "generator")   -- or "kafka"
local output   = s.param("output", "stdout")     -- or "kafka"
local topic_in = s.param("topic_in", "events")
local topic_out = s.param("topic_out", "metrics-1m")
local start    = s.param("start", "earliest")    -- where to begin on topic_in
local delivery = s.param("delivery", "exactly_once") -- of output kafka
local servers  = s.param("bootstrap", "localhost:9092")
local count    = s.param("count", 100000)        -- of generated events

local job = s.job("tenant-metrics", {
  mini_batch = { allow_latency = "5s", size = 50000, bytes = "32MiB" },
  bootstrap_servers = servers,
})

-- What comes in: {"dimensions":{"dc":"ber","host":"h1"},"metric_name":"cpu",
--                 "tenant_id":"acme","ts":1767225600000,"user":17,"value":42}
local sources = {
  generator = function()
    return s.generator {
      count = count, seed = 7,
      fields = {
        tenant_id   = s.gen.choice { "acme", "acme", "acme", "bolt", "crab" },
        metric_name = s.gen.cycle { "cpu", "mem" },
        dimensions  = function(i)
          if i // 2 % 2 == 0 then return { host = "h1", dc = "ber" } end
          return { host = "h2", dc = "par" }
        end,
        value = s.gen.int(1, 100),
        user  = s.gen.int(1, 200),
        ts    = s.gen.time { start = 1767225600000, step = "1ms" },
      },
    }
  end,
  kafka = function()
    return s.kafka { topic = topic_in, format = "json", start = start }
  end,
}

local sinks = {
  stdout = function() return s.stdout() end,
  kafka = function()
    return s.kafka { topic = topic_out, delivery = delivery }
  end,
}

local source = assert(sources[input], "input must be generator or kafka")
local sink = assert(sinks[output], "output must be stdout or kafka")

job:source("events", source())
   :event_time { field = "ts", out_of_orderness = "5s", idle = "30s" }
   :filter(function(e) return e.value ~= nil end)
   :key_by { "tenant_id", "metric_name", "dimensions" }
   :window(s.tumbling "1m")
   :aggregate {
     total = s.sum "value",
     n     = s.count(),
     mean  = s.avg "value",
     p99   = s.percentile("value", 0.99),
     users = s.distinct "user",
   }
   :sink("out", sink())

return job
