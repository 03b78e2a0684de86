-- tries: the records of a window, all read
-- out: none
-- stderr: not enough memory
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :event_time { field = "ts" }
   :key_by "k"
   :window(s.tumbling "1h")
   :process { name = "w", on_window = function(rows, ctx)
     for _ = 1, 1e9 do
       for _, e in ipairs(rows) do e.x = { e.i, e.l } end
     end
   end }
   :sink("out", s.stdout())

return job
