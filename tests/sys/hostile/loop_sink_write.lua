-- tries: write of a sink that does not end
-- out: none
-- exit: 1
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :sink("out", s.sink { write = function(batch) while true do end end })

return job
