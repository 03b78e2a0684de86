local s = require "streamlua"
local job = s.job("t", { on_error = "skip", agg_phase_strategy = s.param("strategy", "AUTO") })
job:source("in", s.stdin()):event_time { field = "ts" }
   :key_by("k", { on_null = "fail" }):window(s.tumbling "10s")
   :aggregate { n = s.count() }:sink("out", s.stdout())
return job
