local s = require "streamlua"
local job = s.job "fraud"
job:source("payments", s.stdin { format = "json" }):event_time { field = "ts" } :key_by "account"
   :process { name = "fraud", state = { small = s.value_state() },
     on_record = function(e, ctx)
       local t0 = ctx.state.small:get()
       if t0 and e.amount > 500 and e.ts - t0 <= 60000 then
         ctx:emit { account = e.account, amount = e.amount, at = e.ts }
       end
       ctx.state.small:clear()
       if e.amount < 1 then
         ctx.state.small:set(e.ts)
         ctx:register_event_timer(e.ts + 60000)
       end
     end,
     on_timer = function(ts, ctx)
       if ctx.state.small:get() == ts - 60000 then ctx.state.small:clear() end
     end }
   :sink("alerts", s.stdout())
return job
