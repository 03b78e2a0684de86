-- tries: random numbers are seeded alike
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

math.randomseed()
local first = math.random(1 << 40)
math.randomseed()

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return math.random(1 << 40) == first
   end)
   :sink("out", s.stdout())

return job
