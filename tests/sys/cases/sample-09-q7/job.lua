local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("bids", src):event_time { field = "ts" } :key_by {} :window(s.tumbling "10s")
   :aggregate { price = s.max "price", bidder = s.max_by("price", "bidder"), auction = s.max_by("price", "auction") }
   :sink("out", s.stdout())
return job
