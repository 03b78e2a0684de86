-- A window with many keys that goes on changing: rounds over large state.
local s = require "streamlua"

local job = s.job("bench-bigstate", {
  parallelism = s.param("p", 1),
  checkpoint = { interval = s.param("interval", "10s") },
  state = { backend = s.param("backend", "lmdb") },
  memory = { total = s.param("total", "16GiB") },
})

job:source("gen", s.generator {
     rate = s.param("rate", 0), partitions = 2,
     fields = { id = s.gen.int(1, s.param("keys", 1000000)),
                value = s.gen.int(1, 1000) },
   })
   :key_by "id"
   :window(s.global())
   :aggregate({ n = s.count(), sum = s.sum "value" }, { name = "state" })
   :sink("out", s.blackhole {})

return job
