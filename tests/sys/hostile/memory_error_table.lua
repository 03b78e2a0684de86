-- tries: a table as error while memory is full
-- stderr: table value|not enough memory|call_timeout
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     pcall(function() while true do t[#t + 1] = { t } end end)
     pcall(function() while true do t[#t + 1] = #t .. 'x' end end)
     error(t)
   end)
   :sink("out", s.stdout())

return job
