-- Fill a topic: events of about 147 bytes, record i in partition i mod 4.
--
-- keys = "uniform": 100 tenants x 100 metrics; "zipf": exponent 1.5 over 1 M
-- users; "hot": one user has 80 %, another one from half time on.
-- 75 us of event time a record: 133,333 records, so 7.5 rows of 10,000 keys
-- per 100 records, in 10 s.
local s = require "streamlua"

local count = s.param("count", 4000000)
local keys = s.param("keys", "uniform")

local function hot(i)
  if i % 5 ~= 0 then return i < count // 2 and 1 or 2 end
  return 3 + i * 2654435761 % 999983
end

local job = s.job("bench-load", { parallelism = 1 })

job:source("gen", s.generator {
     count = count,
     partitions = 4,
     seed = 20261129,
     fields = {
       host = s.gen.hex(12),
       metric_name = s.gen.int(100, 199),
       region = s.gen.choice { "eu-west-1", "us-east-1", "ap-south-1" },
       tenant_id = s.gen.int(100, 199),
       ts = function(i) return 1700000000000 + i * 3 // 40 end,
       unit = "milliseconds",
       user = keys == "zipf" and s.gen.zipf(1000000, 1.5)
         or keys == "hot" and hot or s.gen.int(1, 1000000),
       value = s.gen.int(1, 1000),
     },
   })
   :event_time { field = "ts" }
   :sink("out", s.kafka {
     topic = s.param("topic", "bench"),
     key = false,
     partition = function(e)
       local _, p = s.origin(e)
       return p
     end,
     delivery = "at_least_once",
     properties = { ["compression.codec"] = "lz4", ["linger.ms"] = 50 },
   })

return job
