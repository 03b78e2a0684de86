-- The generator's own events: to nowhere, or as lines of a file's content.
local s = require "streamlua"

local job = s.job("bench-generator", { parallelism = 1 })

job:source("gen", s.generator {
     count = s.param("count", 4000000),
     seed = 20261129,
     fields = {
       host = s.gen.hex(12),
       metric_name = s.gen.int(100, 199),
       region = s.gen.choice { "eu-west-1", "us-east-1", "ap-south-1" },
       tenant_id = s.gen.int(100, 199),
       ts = s.gen.time { start = 1700000000000 },
       unit = "milliseconds",
       user = s.gen.int(1, 1000000),
       value = s.gen.int(1, 1000),
     },
   })
   :sink("out", s.param("out", "blackhole") == "stdout" and s.stdout {}
     or s.blackhole {})

return job
