local s = require "streamlua"
local job = s.job "t"
local src = job:source("in", s.stdin())
local a = src:filter(function(e) return e.a > 0 end)
a:sink("out", s.stdout())
src:map(function(e) return { b = e.a } end):sink("second", s.stdout())
return job
