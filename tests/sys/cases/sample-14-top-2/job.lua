local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.tumbling "10s")
   :top_n { n = 2, by = "price" } :sink("out", s.stdout())
return job
