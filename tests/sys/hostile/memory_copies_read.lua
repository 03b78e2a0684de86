-- tries: fields of kept copies
-- stderr: not enough memory
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     while true do
       local c = s.copy(e)
       c.x = { e.i }
       t[#t + 1] = c
     end
   end)
   :sink("out", s.stdout())

return job
