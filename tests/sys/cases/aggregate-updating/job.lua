local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "cat"
   :aggregate({ n = s.count(), total = s.sum "price", items = s.collect "item", dear = s.count(nil, { where = function(e) return e.price > 15 end }) }, { name = "a" })
   :sink("out", s.stdout())
return job
