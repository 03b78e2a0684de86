local s = require "streamlua"
local job = s.job("t", { on_error = "skip" })
job:source("in", s.generator { count = 3, fields = {
   i = function(i) if i == 1 then error "boom" end return i end } }):sink("out", s.stdout())
return job
