local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "at", out_of_orderness = "1h" } :key_by "cat" :window(s.global())
   :reduce(function(a, b)
     local function at(e) return s.timestamp(e) end
     local last = at(a) > at(b) and a or b
     return s.row { { "cat", last.cat }, { "v", last.v } }
   end)
   :sink("out", s.stdout())
return job
