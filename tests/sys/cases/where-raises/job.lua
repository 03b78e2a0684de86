local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by {} :window(s.global())
   :aggregate({ n = s.count(), m = s.count(nil, { where = function(e) return e.price > 15 end }) }, { on_error = "skip" })
   :sink("out", s.stdout())
return job
