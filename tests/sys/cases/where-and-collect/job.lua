local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts", out_of_orderness = "1m" } :key_by "cat" :window(s.tumbling "1m")
   :aggregate { n = s.count(), cheap = s.count(nil, { where = function(e) return e.price < 15 end }),
     dear = s.sum("price", { where = function(e) return e.price >= 15 end }),
     items = s.collect("item", { where = function(e) return e.item ~= 2 end }),
     none = s.avg("price", { where = function() return false end }) }
   :sink("out", s.stdout())
return job
