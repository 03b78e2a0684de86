-- tries: a table that is small, and endless once written
-- stderr: 64 MiB
-- seconds: 30
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local t = { 1 }
     for i = 1, 60 do t = { t, t } end
     return { i = 5, t = t }
   end)
   :sink("out", s.stdout())

return job
