local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin()):event_time { field = "ts" }
   :map(function(e) return { k = e.ts == 1 and 1 / 0 or e.ts == 2 and { -1 / 0 } or "\xff" } end)
   :key_by "k" :window(s.tumbling "1s") :aggregate { n = s.count() }
   :sink("out", s.stdout { nan = "string", invalid_utf8 = "replace" })
return job
