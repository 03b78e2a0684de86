local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.global())
   :reduce(function(a, b) return { cat = a.cat, price = a.price - b.price } end)
   :sink("out", s.stdout())
return job
