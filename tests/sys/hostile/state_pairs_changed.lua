-- tries: to change a map while it is walked
-- out: all
-- stderr-not: internal error
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "5s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p",
     state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       ctx:emit { i = e.i }
       if e.i ~= 5 then return end
       local m = ctx.state.m
       for i = 1, 100 do m:put(i, i) end
       for k in m:pairs() do m:remove(k) m:put(k + 1000, 1) m:put(k - 1, 1) end
       m:clear()
       for k in m:pairs() do m:clear() end
     end }
   :sink("out", s.stdout())

return job
