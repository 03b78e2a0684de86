-- Cold start: how soon is the first row out?
local s = require "streamlua"

local from = s.param("from", "generator")
local job = s.job("bench-first", { parallelism = 1 })

job:source("in", from == "kafka"
     and s.kafka { topic = s.param("topic", "bench"), start = "earliest" }
     or s.generator { count = 100, fields = { value = s.gen.int(1, 1000) } })
   :filter(function(e) return e.value > 0 end)
   :sink("out", s.stdout {})

return job
