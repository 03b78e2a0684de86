-- tries: a table that contains itself
-- stderr: contains itself
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local t = { i = 5 }
     t.t = { t }
     return t
   end)
   :sink("out", s.stdout())

return job
