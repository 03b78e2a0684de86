-- tries: a call with 250,000 arguments
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "64MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     for i = 1, 250000 do t[i] = 65 end
     return #string.char(table.unpack(t)) == 250000
   end)
   :sink("out", s.stdout())

return job
