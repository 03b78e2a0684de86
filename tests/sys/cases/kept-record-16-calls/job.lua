local s = require "streamlua"
local job = s.job "t"
local kept = {}
job:source("in", s.stdin())
   :map(function(e)
      kept[#kept + 1] = e
      local bad = 0
      for i = 1, #kept - 1 do
        local ok, message = pcall(function() return kept[i].i end)
        if not ok and message:find "record used after its call" then bad = bad + 1 end
      end
      return { i = e.i, bad = bad }
    end)
   :sink("out", s.stdout())
return job
