local s = require "streamlua"
local job = s.job("t", { mini_batch = { allow_latency = "1h" } })
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts", out_of_orderness = "1h" } :key_by "cat"
   :aggregate({ n = s.count() }, { name = "a" })
   :sink("out", s.stdout { envelope = true })
return job
