local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):key_by "cat" :window(s.global())
   :reduce(function(a, b) return s.row { { "cat", a.cat }, { "v", a.v + b.v } } end)
   :sink("out", s.stdout())
return job
