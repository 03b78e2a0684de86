local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local vwap = s.aggregator { args = { "price", "qty" },
  init    = function() return { 0, 0 } end,
  add     = function(a, p, q) a[1] = a[1] + p * q; a[2] = a[2] + q; return a end,
  merge   = function(a, b) a[1] = a[1] + b[1]; a[2] = a[2] + b[2]; return a end,
  retract = function(a, p, q) a[1] = a[1] - p * q; a[2] = a[2] - q; return a end,
  result  = function(a) if a[2] ~= 0 then return a[1] / a[2] end end }
job:source("trades", src):event_time { field = "ts" } :key_by "sym" :window(s.tumbling "1m")
   :aggregate { { "vwap", vwap }, { "vol", s.sum "qty" } } :sink("out", s.stdout())
return job
