-- Read everything, output nothing.
--
-- how = "fields": one declared field of each record is read and counted, all
-- of it in C; "lua": one Lua call a record, which reads one field.
local s = require "streamlua"

local job = s.job("bench-drain", { parallelism = s.param("p", 1) })
local events = job:source("events", s.kafka {
  topic = s.param("topic", "bench"), start = "earliest",
})

if s.param("how", "fields") == "lua" then
  events:filter(function(e) return e.value > 2000 end)
        :sink("out", s.blackhole {})
else
  events:key_by {}
        :window(s.global())
        :aggregate { all = s.count(), with_value = s.count "value" }
        :sink("out", s.blackhole {})
end

return job
