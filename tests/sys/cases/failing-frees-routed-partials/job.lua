local s = require "streamlua"
local job = s.job("t", { parallelism = 2, buffer_timeout = "10s", mini_batch = { size = 30 } })
job:source("gen", s.generator { seed = 1, count = 4000, fields = { k = s.gen.int(1, 40), u = s.gen.int(1, 100000) } })
   :map(function(e) if select(3, s.origin(e)) == 2900 then e.u = "x" end return e end):event_time {}
   :key_by { "k" }:window(s.tumbling "1h"):aggregate({ n = s.sum "u", p = s.percentile("u", 0.5) }, { name = "sums" })
   :sink("out", s.blackhole {})
return job
