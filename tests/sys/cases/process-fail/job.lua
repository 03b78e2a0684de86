local s = require "streamlua"
local job = s.job "fail"
job:source("in", s.stdin { format = "json" }):event_time { field = "ts" } :key_by "k"
   :process { name = "p", state = { n = s.value_state() },
     on_record = function(e, ctx)
       if e.amount > 5 then ctx:emit(e) end
     end }
   :sink("out", s.stdout())
return job
