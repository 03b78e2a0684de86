local s = require "streamlua"
local job = s.job "burst"
job:source("w", s.stdin { format = "json" }):event_time { field = "ts" } :key_by "account"
   :process { name = "burst", state = { seen = s.list_state { ttl = "1h" } },
     on_record = function(e, ctx)
       local keep = {}
       for _, t in ipairs(ctx.state.seen:get()) do
         if t > e.ts - 3600000 then keep[#keep + 1] = t end
       end
       keep[#keep + 1] = e.ts
       if #keep >= 3 then
         ctx:emit { account = e.account, n = #keep, at = e.ts }
         keep = {}
       end
       ctx.state.seen:update(keep)
     end }
   :sink("out", s.stdout())
return job
