local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):filter(function(e) return e.auction % 123 == 0 end):select { "auction", "price" }:sink("out", s.stdout())
return job
