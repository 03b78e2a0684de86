local s = require "streamlua"
local job = s.job("t", { on_error = "quarantine", quarantine = s.file { path = "bad" } })
job:source("in", s.stdin { format = "raw" })
   :event_time { func = function(e) return #e.value end }
   :filter(function(e) return e.value == '{"a":true}' or error "MSG" end)
   :sink("out", s.stdout { format = "raw" })
return job
