-- tries: a function of the generator that does not end
-- out: any
-- exit: 0 or 1
-- stderr: the call took longer than call_timeout \(1000 ms\)
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.generator { count = 10, fields = {
  i = function(i) while i == 5 do end return i end } })
   :sink("out", s.stdout())

return job
