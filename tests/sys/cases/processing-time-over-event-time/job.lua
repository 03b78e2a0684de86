local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.tumbling("1h", { clock = "processing" })) :aggregate { n = s.count() }
   :map(function(e) return { k = e.k, now = e.window_start > 1700000000000, n = e.n } end)
   :key_by { "k", "now" } :window(s.global()) :aggregate { n = s.sum "n" }
   :sink("out", s.stdout())
return job
