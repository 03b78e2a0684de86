-- tries: on_record that does not end, after it wrote state
-- out: all but 5
-- stderr: the call took longer than call_timeout \(1000 ms\)
-- stdout: "i":9,"n":4
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p", state = { n = s.value_state() },
     on_record = function(e, ctx)
       local n = (ctx.state.n:get() or 0) + 1
       ctx.state.n:set(n)
       ctx:emit { i = e.i, n = n }
       while e.i == 5 do end
     end }
   :sink("out", s.stdout())

return job
