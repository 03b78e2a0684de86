local s = require "streamlua"
local job = s.job "t"
job:source("in", s.source { read = function(at)
     if at then return {}, at end
     return { { k = "a", ts = 0 } }, 1
   end })
   :event_time { field = "ts", idle = "10ms", all_idle = 0 }
   :key_by "k":window(s.tumbling(200)):aggregate { n = s.count() }
   :sink("out", s.stdout())
return job
