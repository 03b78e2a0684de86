local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local p = job:source("in", src):event_time { field = "ts", out_of_orderness = "1m" } :key_by "cat" :window(s.tumbling "10s")
   :process { name = "w", outputs = { "first" }, on_window = function(records, ctx)
     local items = {}
     for i, r in ipairs(records) do items[i] = r.item end
     ctx:emit { cat = ctx:key(), items = items, from = ctx:window_start(), to = ctx:window_end() }
     ctx:emit_to("first", records[1])
   end }
p:sink("out", s.stdout { envelope = true })
p:side_output "first" :sink("first", s.stdout { envelope = true })
return job
