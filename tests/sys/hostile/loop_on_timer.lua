-- tries: on_timer that does not end
-- out: all but 5
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :event_time { field = "ts" }
   :key_by "i"
   :process { name = "p",
     on_record = function(e, ctx) ctx:register_event_timer(e.ts + 500) end,
     on_timer = function(ts, ctx)
       while ctx:key() == 5 do end
       ctx:emit { i = ctx:key() }
     end }
   :sink("out", s.stdout())

return job
