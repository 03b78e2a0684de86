local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin()):event_time { field = "ts" } :key_by "k" :window(s.tumbling "1s")
   :aggregate { n = s.aggregator { args = { "a" },
      init = function() return 0 end,
      add = function(a) while true do end return a end,
      merge = function(a, b) return a + b end,
      result = function(a) return a end } }
   :sink("out", s.stdout())
return job
