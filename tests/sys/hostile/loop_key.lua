-- tries: a key function that does not end
-- out: all but 5
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :key_by { { "k", function(e)
     while e.i == 5 do end
     return e.k
   end } }
   :process { name = "p", on_record = function(e, ctx) ctx:emit(e) end }
   :sink("out", s.stdout())

return job
