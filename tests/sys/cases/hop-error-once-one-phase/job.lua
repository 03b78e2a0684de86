local s = require "streamlua"
local job = s.job("t", { on_error = "skip", agg_phase_strategy = s.param("strategy", "AUTO") })
job:source("in", s.stdin()):event_time { field = "ts" }
   :key_by "k":window(s.hopping(10001, 3334))
   :aggregate { a = s.sum "v",
     f = s.max(function(e) if e.v == 7 then error "seven" end return e.v end) }
   :sink("out", s.stdout())
return job
