local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local r = job:source("in", src):event_time { field = "ts" } :key_by "k"
   :window(s.tumbling "10s", { lateness = "1s", late_output = "late" }) :aggregate { n = s.count() }
r:sink("out", s.stdout())
r:side_output("late"):sink("late", s.stdout())
return job
