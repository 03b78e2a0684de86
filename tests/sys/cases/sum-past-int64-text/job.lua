local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.tumbling "1m")
   :aggregate { a = s.sum("v", { overflow = "string" }), b = s.sum("v", { overflow = "float" }) } :sink("out", s.stdout())
return job
