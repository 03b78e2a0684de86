local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "at", out_of_orderness = "1h" } :key_by "cat" :window(s.global())
   :reduce(function(a, b) return s.timestamp(a) > s.timestamp(b) and a or b end)
   :sink("out", s.stdout())
return job
