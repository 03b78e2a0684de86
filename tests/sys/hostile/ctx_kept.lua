-- tries: ctx in a coroutine of a later call
-- out: some
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept, later

job:source("in", s.stdin())
   :key_by "k"
   :process { name = "p",
     state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       ctx:emit { i = e.i }
       if e.i > 5 then return error(select(2, pcall(later.emit, later, e))) end
       later = ctx
       if e.i ~= 5 then return end
       kept = coroutine.wrap(function() while true do ctx:emit { i = 50 } coroutine.yield() end end)
       kept()
     end }
   :sink("out", s.stdout())

return job
