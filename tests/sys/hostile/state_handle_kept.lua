-- tries: a handle of state, used in a later call
-- out: all but 6 7 8 9
-- stderr: with a colon
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p",
     state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       ctx:emit { i = e.i }
       if e.i > 5 then return kept.get({}) end
       if e.i ~= 5 then return end
       kept = ctx.state.v
     end }
   :sink("out", s.stdout())

return job
