-- tries: -0, NaN and infinity come back as they were
-- out: all
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
       local v = ctx.state.v
       v:set(-0.0)
       assert(1 / v:get() == -math.huge)
       v:set(0 / 0)
       assert(v:get() ~= v:get())
       v:set { math.huge, -math.huge, math.mininteger, 'a\0b', '\xff' }
       local t = v:get()
       assert(t[1] == math.huge and t[2] == -math.huge and t[3] == math.mininteger)
       assert(t[4] == 'a\0b' and t[5] == '\xff')
     end }
   :sink("out", s.stdout())

return job
