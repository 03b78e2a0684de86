local s = require "streamlua"
local job = s.job("quarantine", { parallelism = 1, on_error = "quarantine", quarantine = s.file { path = "bad" } })
job:source("in", s.stdin { format = "json" }):event_time { field = "ts" } :key_by("k", { on_null = "quarantine" })
   :process { name = "p", state = { n = s.value_state() },
     on_record = function(e, ctx)
       ctx.state.n:set(e.v + 1)
       ctx:register_event_timer(e.ts + 10)
       ctx:emit { v = e.v }
     end,
     on_timer = function(ts, ctx)
       if ctx.state.n:get() > 5 then error "large" end
       ctx:emit { n = ctx.state.n:get() }
     end }
   :sink("out", s.stdout())
return job
