local s = require "streamlua"
local job = s.job "split"
local p = job:source("in", s.stdin { format = "json" }):split(function(e) return e.to end, { "a", "b" }, { on_error = "skip" })
p.a:sink("a", s.stdout())
p.b:sink("b", s.blackhole())
return job
