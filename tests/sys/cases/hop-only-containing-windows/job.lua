local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.hopping("10s", "5s"))
   :aggregate { n = s.count() } :sink("out", s.stdout())
return job
