-- tries: merge of an aggregator that does not end
-- out: any
-- stderr: .
-- seconds: 20
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :event_time { field = "ts" }
   :key_by "k"
   :window(s.tumbling "1h")
   :aggregate { { "n", s.aggregator {
     init = function() return 0 end,
     add = function(acc, e) return acc + 1 end,
     merge = function(a, b)
       while true do
     end
       return a + b
     end,
     result = function(acc) return acc end,
   } } }
   :sink("out", s.stdout())

return job
