local s = require "streamlua"
local job = s.job("t", { lua = { call_timeout = "2s" } })
job:source("busy", s.generator { count = 1, fields = { n = s.gen.int(1, 9) } })
   :map(function(e) while true do end end):sink("a", s.blackhole {})
job:source("bad", s.generator { count = 200000, fields = { n = s.gen.int(1, 9) } }, { slot_sharing_group = "b" })
   :map(function(e) if select(3, s.origin(e)) == 199999 then error "enough" end return e end)
   :sink("b", s.blackhole {})
return job
