local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.tumbling "10s")
   :reduce(function(a, b) a.price = a.price + b.price; a.item = math.max(a.item, b.item); a.ts = math.max(a.ts, b.ts); return a end)
   :sink("out", s.stdout { envelope = true })
return job
