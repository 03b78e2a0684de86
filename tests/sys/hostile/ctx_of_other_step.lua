-- tries: ctx and state of another step
-- out: all but 5
-- stderr: belong to the call|nil value
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local other, state
job:source("in", s.stdin())
   :key_by "k"
   :process { name = "a", state = { v = s.value_state() },
     on_record = function(e, ctx)
       other, state = ctx, ctx.state.v
       ctx:emit(e)
     end }
   :key_by "k"
   :process { name = "b", on_record = function(e, ctx)
       assert(other == nil or not pcall(other.emit, other, e))
       assert(state == nil or not pcall(state.get, state))
       if e.i == 5 then other:emit(e) end
       ctx:emit(e)
     end }
   :sink("out", s.stdout())

return job
