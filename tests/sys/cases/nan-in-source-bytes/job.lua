local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { on_error = "skip" }
job:source("in", src)
   :map(function(e)
      if e.how == "table" then return { t = s.table(e) } end
      if e.how == "assign" then e.z = 1 return e end
      local n = 0
      for _, v in pairs(e.v) do n = n + (v and 1 or 0) end
      return { n = n }
    end)
   :sink("out", s.stdout())
return job
