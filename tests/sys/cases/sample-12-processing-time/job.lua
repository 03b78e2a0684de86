local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):key_by "bidder" :window(s.tumbling("10s", { clock = "processing" })) :aggregate { n = s.count() }
   :map(function(e) return { bidder = e.bidder, whole = e.window_end - e.window_start == 10000 and e.window_start % 10000 == 0 and e.window_start > 1700000000000, n = e.n } end)
   :key_by "bidder" :window(s.global()) :aggregate { n = s.sum "n", whole = s.min(function(e) return e.whole and 1 or 0 end) }
   :sink("out", s.stdout())
return job
