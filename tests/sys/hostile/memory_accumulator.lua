-- tries: an accumulator that grows
-- out: any
-- stderr: not enough memory
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :aggregate { { "n", s.aggregator { init = function() return {} end,
     add = function(acc, e)
       for i = 1, 1e9 do acc[#acc + 1] = { i } end
       return acc
     end,
     result = function(acc) return #acc end } } }
   :sink("out", s.stdout())

return job
