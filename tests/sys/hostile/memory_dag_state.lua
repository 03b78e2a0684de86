-- tries: the same as state
-- out: all but 5
-- stderr: 64 MiB
-- seconds: 30
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local function endless()
  local t = { 1 }
  for i = 1, 60 do t = { t, t } end
  return t
end

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p", state = { v = s.value_state() },
     on_record = function(e, ctx)
       ctx.state.v:set(e.i)
       if e.i == 5 then ctx.state.v:set(endless()) end
       ctx:emit { i = ctx.state.v:get() }
     end }
   :sink("out", s.stdout())

return job
