-- tries: changed copies of records, dropped at once
-- out: all
-- stderr-not: user_error
-- seconds: 20
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     for i = 1, 200000 do
       local c = s.copy(e)
       c.x = i
     end
     return true
   end)
   :sink("out", s.stdout())

return job
