-- tries: the same in a map, and as its key
-- stderr: contains itself
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p",
     state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       ctx:emit { i = e.i }
       if e.i ~= 5 then return end
       local t = {}
       t[1] = t
       assert(not pcall(ctx.state.m.put, ctx.state.m, t, 1))
       ctx.state.m:put('a', t)
     end }
   :sink("out", s.stdout())

return job
