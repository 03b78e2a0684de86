-- tries: a table a hundred thousand levels deep
-- stderr: deeper than 64 levels
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local t = {}
     for i = 1, 100000 do t = { t } end
     return { i = 5, t = t }
   end)
   :sink("out", s.stdout())

return job
