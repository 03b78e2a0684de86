local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin()):event_time { field = "ts" }
   :key_by(function(e) return { e.v * math.huge } end):window(s.tumbling "10s")
   :aggregate { n = s.count() }:sink("out", s.stdout { nan = "string" })
return job
