-- tries: a loop in an inner function: its line is told
-- stderr: the call took longer than call_timeout \(1000 ms\)
-- stderr: loop_line\.lua:(\d+): the call took longer
-- line: while true do n
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local function inner()
       local n = 0
       while true do n = n + 1 end
     end
     inner()
   end)
   :sink("out", s.stdout())

return job
