-- tries: the same, by a map of the record
-- stderr: 64 MiB
-- seconds: 30
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "600MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local m = e.m
     for i = 1, 5 do m['v' .. i] = ('x'):rep(20 << 20) end
     return m
   end)
   :sink("out", s.stdout())

return job
