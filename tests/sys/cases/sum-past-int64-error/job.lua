local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.tumbling "1m")
   :aggregate({ a = s.sum "v" }, { on_error = "skip" }) :sink("out", s.stdout())
return job
