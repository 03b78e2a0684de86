local s = require "streamlua"
local job = s.job("t")
job:source("in", s.stdin())
   :map(function(e) s.set_timestamp(e, e.ts) return e end)
   :event_time({ on_error = "skip" })
   :key_by { "k" }:window(s.tumbling "10s")
   :aggregate { n = s.count() }:sink("out", s.stdout())
return job
