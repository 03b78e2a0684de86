local s = require "streamlua"
local job = s.job "silence"
job:source("beats", s.stdin { format = "json" }):event_time { field = "ts", all_idle = "1m" } :key_by "device"
   :process { name = "silence", state = { last = s.value_state() },
     on_record = function(e, ctx)
       ctx.state.last:set(math.max(ctx.state.last:get() or e.ts, e.ts))
       ctx:register_event_timer(e.ts + 300000)
     end,
     on_timer = function(ts, ctx)
       if ctx.state.last:get() == ts - 300000 then
         ctx:emit { device = ctx:key(), silent_since = ts - 300000 }
       end
     end }
   :sink("out", s.stdout())
return job
