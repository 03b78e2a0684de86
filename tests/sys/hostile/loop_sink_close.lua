-- tries: close of a sink that does not end
-- out: none
-- exit: 0
-- stderr: close|call_timeout
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :sink("out", s.sink { write = function() end, close = function() while true do end end })

return job
