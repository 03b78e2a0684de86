-- tries: the methods of state called on other things
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
       local v, m = ctx.state.v, ctx.state.m
       for _, x in ipairs { 1, 'x', {}, print, m, e, e.l, s.null, coroutine.create(print) } do
         assert(not pcall(v.get, x) and not pcall(v.set, x, 1) and not pcall(m.pairs, e))
         assert(not pcall(ctx.emit, x, {}) and not pcall(ctx.key, x))
       end
       assert(not pcall(v.get) and not pcall(ctx.key))
     end }
   :sink("out", s.stdout())

return job
