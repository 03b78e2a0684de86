-- tries: -0.0 and the smallest integer
-- out: all
-- stdout: "v":-0\.0,"w":-9223372036854775808
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return { i = 5, v = -0.0, w = math.mininteger }
   end)
   :sink("out", s.stdout())

return job
