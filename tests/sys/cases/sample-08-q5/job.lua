local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local counts = job:source("bids", src):event_time { field = "ts" }
   :key_by "auction" :window(s.hopping("4s", "2s")) :aggregate({ n = s.count() }, { name = "counts" })
counts:key_by {} :window(s.same()) :top_n { n = 1, by = "n", ties = true } :sink("out", s.stdout())
return job
