local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat"
   :reduce(function(a, b) return { cat = a.cat, price = a.price + b.price } end, { name = "r" })
   :filter(function(e) return e.price > 0 end)
   :sink("out", s.stdout())
return job
