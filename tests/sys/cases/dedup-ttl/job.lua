local s = require "streamlua"
local job = s.job "dedup"
job:source("in", s.stdin { format = "json" }):event_time { field = "ts", out_of_orderness = "1h" } :key_by { "a", "b" }
   :dedup { ttl = "10s" } :sink("out", s.stdout())
return job
