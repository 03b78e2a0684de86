-- tries: to write to a map that has left its record
-- stderr: left its record
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local m = e.m
     e.m = 1
     m.a = 2
     return e
   end)
   :sink("out", s.stdout())

return job
