local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.global())
   :process { on_error = "skip", on_window = function(records, ctx)
     ctx:emit { n = #records }
     if #records > 1 then error "too many" end
   end }
   :sink("out", s.stdout())
return job
