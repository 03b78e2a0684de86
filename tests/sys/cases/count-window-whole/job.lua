local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local sum = s.aggregator { args = { "v" }, init = function() return 0 end, add = function(a, v) return a + v end, result = function(a) return a end }
job:source("in", src):key_by "k" :window(s.count_window(3, 1)):aggregate { sum = sum } :sink("b", s.stdout())
return job
