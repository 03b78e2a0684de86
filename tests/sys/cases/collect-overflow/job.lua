local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.global())
   :aggregate({ v = s.collect("item", { limit = 2 }) }, { on_error = "skip" })
   :sink("out", s.stdout())
return job
