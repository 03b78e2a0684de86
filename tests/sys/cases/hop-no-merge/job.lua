local s = require "streamlua"
local job = s.job "t"
local ids = s.aggregator { args = { "i" },
  init = function() return {} end,
  add = function(a, i) a[#a + 1] = i; return a end,
  result = function(a) table.sort(a); return a end }
job:source("in", s.stdin()):event_time { field = "ts", out_of_orderness = "5s" }
   :key_by "k":window(s.hopping("10s", "4s"))
   :aggregate { ids = ids, n = s.count() }:sink("out", s.stdout())
return job
