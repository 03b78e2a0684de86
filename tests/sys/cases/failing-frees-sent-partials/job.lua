local s = require "streamlua"
local job = s.job("t", { parallelism = 2, mini_batch = { size = 30 } })
local rows = job:source("gen", s.generator { seed = 1, count = 4000, fields = { k = s.gen.int(1, 40), u = s.gen.int(1, 100000) } })
   :map(function(e) if select(3, s.origin(e)) == 3000 then error "enough" end return e end):event_time {}
rows:key_by { "k" }:window(s.tumbling "1h"):aggregate({ d = s.distinct "u" }, { name = "one" }):sink("a", s.blackhole {})
rows:key_by { "k" }:window(s.tumbling "1h"):aggregate({ n = s.sum "u", p = s.percentile("u", 0.5) }, { name = "two" }):sink("b", s.blackhole {})
return job
