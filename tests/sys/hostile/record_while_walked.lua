-- tries: to change a record while it is walked
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     for k in pairs(e) do e[k] = nil end
     for k in pairs(e) do e[k .. 'x'] = 1 end
     e.l = { 1, 2, 3 }
     for i in ipairs(e.l) do e.l = { i } end
     e.i = 5
     return e
   end)
   :sink("out", s.stdout())

return job
