local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local k = job:source("in", src):event_time { field = "ts" } :key_by "cat"
k:window(s.tumbling "10s", { window_fields = { "from", "to" } }):aggregate({ n = s.count() }, { name = "agg-a" }):sink("a", s.stdout())
local c = k:window(s.tumbling "10s", { window_fields = false }):aggregate({ m = s.count() }, { name = "agg-b" })
c:sink("b", s.stdout())
c:key_by {} :window(s.same()):aggregate({ all = s.sum "m" }, { name = "agg-c" }):sink("c", s.stdout())
return job
