local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin())
   :map(function(e) if e.a == 1 then error "first" end return e end, { on_error = "skip" })
   :map(function(e) if e.a == 2 then error "second" end return e end, { on_error = "skip" })
   :sink("out", s.stdout())
return job
