local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("cdc", src)
   :filter(function(e) return not s.is_tombstone(e) end)
   :event_time { field = "ts_ms" }
   :map(function(e) if e.op == "d" then return s.tombstone { id = e.before.id } end return e.after end)
   :sink("out", s.stdout { envelope = true, key = "id" })
return job
