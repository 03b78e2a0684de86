-- tries: to catch what the cap raises, for ever
-- stderr: not enough memory|call_timeout
-- seconds: 10
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local keep = {}
     while true do
       pcall(function() keep[#keep + 1] = ('x'):rep(1000000) .. #keep end)
     end
   end)
   :sink("out", s.stdout())

return job
