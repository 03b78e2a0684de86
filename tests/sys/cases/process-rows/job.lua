local s = require "streamlua"
local job = s.job "rows"
local first
local p = job:source("in", s.stdin { format = "json" }):event_time { field = "ts" } :key_by { "a", { "b", function(e) return e.b.c end } }
   :process { name = "p", outputs = { "more" },
     on_record = function(e, ctx)
       if e.again then -- a copy has the time of the call that emits it
         ctx:emit(first)
         s.set_timestamp(e, 3)
         ctx:emit(e)
         return
       end
       first = s.copy(e)
       ctx:emit(e)
       ctx:emit({ at = 77 }, 77)
       local r = s.row { { "z", 1 }, { "y", ctx:key() } }
       s.set_key(r, "mine")
       ctx:emit(r)
       ctx:emit_to("more", { x = 1 })
       ctx:register_event_timer(e.ts + 10)
       ctx:register_event_timer(e.ts + 10)
       ctx:register_event_timer(e.ts + 11)
       ctx:delete_event_timer(e.ts + 11)
     end,
     on_timer = function(ts, ctx)
       ctx:emit { clock = ctx:clock(), ts = ts, time = ctx:timestamp() }
     end }
p:sink("out", s.stdout { envelope = true })
p:side_output("more"):sink("more", s.stdout { envelope = true })
return job
