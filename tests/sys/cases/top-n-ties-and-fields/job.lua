local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local k = job:source("in", src):event_time { field = "ts" } :key_by "k"
k:window(s.tumbling("10s"), { window_fields = { "from", "to" } }):top_n { name = "plain", n = 2, by = "v", order = "asc" } :sink("a", s.stdout())
k:window(s.global()):top_n { name = "ties", n = 2, by = "v", ties = true } :sink("b", s.stdout())
return job
