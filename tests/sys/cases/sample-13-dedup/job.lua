local s = require "streamlua"
local job = s.job "dedup"
job:source("in", s.stdin { format = "json" })
   :event_time { field = "ts" } :key_by "id" :dedup { keep = "first", ttl = "1h" } :sink("out", s.stdout())
return job
