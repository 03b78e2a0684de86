-- tries: on_window that does not end
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
   :window(s.tumbling "1s")
   :process { name = "p",
     on_window = function(rows, ctx)
       while ctx:key() == 5 do end
       ctx:emit(rows[1])
     end }
   :sink("out", s.stdout())

return job
