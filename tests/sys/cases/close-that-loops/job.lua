local s = require "streamlua"
local job = s.job("t", { on_error = "skip", lua = { call_timeout = "200ms" } })
job:source("in", s.stdin())
   :sink("out", s.sink { write = function() end, close = function() while true do end end })
return job
