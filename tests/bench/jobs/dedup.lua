-- The first of each key, over many keys: what a key that was seen costs, in
-- memory and beyond it.
local s = require "streamlua"

local job = s.job("bench-dedup", {
  parallelism = s.param("p", 1),
  checkpoint = { interval = s.param("interval", "10s") },
  state = { backend = s.param("backend", "lmdb") },
  memory = { total = s.param("total", "16GiB") },
})

job:source("gen", s.generator {
     count = s.param("count", 10000000), partitions = 2,
     fields = { id = s.gen.int(1, s.param("keys", 10000000)),
                value = s.gen.int(1, 1000) },
   })
   :key_by "id"
   :dedup { ttl = false, name = "seen" }
   :sink("out", s.blackhole {})

return job
