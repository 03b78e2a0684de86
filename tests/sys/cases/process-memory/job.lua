local s = require "streamlua"
local job = s.job("mem", { parallelism = 1, memory = { state = "16KiB" } })
job:source("in", s.generator { count = 20000, rate = 50000, fields = { k = s.gen.sequence {} } }):key_by "k"
  :process { name = "p", state = { v = s.value_state() }, on_record = function(e, ctx) ctx.state.v:set(1) end }
  :sink("out", s.blackhole())
return job
