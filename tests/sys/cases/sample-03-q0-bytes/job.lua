local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("bids", src):sink("out", s.stdout())
return job
