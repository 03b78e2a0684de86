local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by {} :window(s.global()):top_n { n = 2, by = "v", on_error = "skip" } :sink("b", s.stdout())
return job
