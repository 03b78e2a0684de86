-- tries: read of a source that does not end
-- out: none
-- exit: 1
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.source { read = function() while true do end end })
   :sink("out", s.stdout())

return job
