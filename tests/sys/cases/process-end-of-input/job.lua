local s = require "streamlua"
local job = s.job "end"
job:source("in", s.stdin { format = "json" }):event_time { field = "ts" } :key_by "k"
   :process { name = "p",
     on_record = function(e, ctx)
       ctx:register_event_timer(e.ts + 1000)
       ctx:register_processing_timer(ctx:now() + 3600000)
       ctx:register_processing_timer(ctx:now() + 3600001)
       ctx:delete_processing_timer(ctx:now() + 3600001)
     end,
     on_timer = function(ts, ctx)
       ctx:emit { ts = ts, wm = ctx:watermark() }
       ctx:register_event_timer(ts + 1)
     end }
   :sink("out", s.stdout())
return job
