local s = require "streamlua"
local job = s.job("t", { state = { ttl = "10s" } })
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat"
   :aggregate({ n = s.count(), v = s.collect "item" }, { name = "a" })
   :sink("out", s.stdout())
return job
