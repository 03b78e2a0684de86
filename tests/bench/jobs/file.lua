-- A file of JSON lines, one declared field read, nothing written.
local s = require "streamlua"

local job = s.job("bench-file", { parallelism = 1 })

job:source("events", s.file { path = s.param("path", "events.jsonl") })
   :key_by {}
   :window(s.global())
   :aggregate { all = s.count(), with_value = s.count "value" }
   :sink("out", s.blackhole {})

return job
