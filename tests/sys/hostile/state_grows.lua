-- tries: a list of state without end in one call
-- stderr: call_timeout|memory|64 MiB
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p",
     state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       ctx:emit { i = e.i }
       if e.i ~= 5 then return end
       for i = 1, 1e9 do ctx.state.l:add(('x'):rep(100)) end
     end }
   :sink("out", s.stdout())

return job
