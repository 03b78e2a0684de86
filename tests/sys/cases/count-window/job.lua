local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local k = job:source("in", src):key_by "k"
k:window(s.count_window(3)):aggregate({ v = s.collect(function(e) return e.v end), n = s.count() }, { name = "three" }):sink("a", s.stdout())
k:window(s.count_window(4, 2)):aggregate({ sum = s.sum "v" }, { name = "slide" }):sink("b", s.stdout())
k:window(s.count_window(2)):top_n { name = "top", n = 1, by = "v" } :sink("c", s.stdout())
return job
