local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat" :window(s.global())
   :reduce(function(a, b) if b.price == 30 or a.price == 30 then return nil end return { cat = a.cat, price = a.price + b.price } end, { on_error = "skip" })
   :sink("out", s.stdout())
return job
