-- tries: an aggregator that does not end on its samples
-- stderr: load_timeout
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", load_timeout = "500ms" },
})

local agg = s.aggregator { init = function() return 0 end,
  add = function(acc, e) while true do end end,
  merge = function(a, b) return a + b end,
  result = function(acc) return acc end,
  samples = { { v = 1 }, { v = 2 } } }
job:source("in", s.stdin()):key_by "k":aggregate { { "n", agg } }:sink("out", s.stdout())

return job
