local s = require "streamlua"
local job = s.job "after"
job:source("in", s.stdin { format = "json" }):key_by "k" :dedup { ttl = false }
   :filter(function(e) return e.k ~= "x" end)
   :key_by "k"
   :process { name = "p", state = { n = s.value_state() },
     on_record = function(e, ctx)
       ctx.state.n:set((ctx.state.n:get() or 0) + 1)
       ctx:emit { key = ctx:key(), k = e.k, n = ctx.state.n:get() }
     end }
   :sink("out", s.stdout())
return job
