-- Many keys in one open window: what a key costs in memory.
local s = require "streamlua"

local job = s.job("bench-keys", { parallelism = 1 })

job:source("gen", s.generator {
     count = s.param("count", 1000000),
     fields = { id = s.gen.sequence {}, value = s.gen.int(1, 1000) },
   })
   :key_by "id"
   :window(s.global())
   :aggregate { n = s.count(), sum = s.sum "value" }
   :sink("out", s.blackhole {})

return job
