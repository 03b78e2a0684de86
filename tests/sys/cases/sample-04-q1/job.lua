local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):map(function(e) e.price = e.price * 0.908; return e end):sink("out", s.stdout())
return job
