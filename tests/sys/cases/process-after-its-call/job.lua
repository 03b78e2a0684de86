local s = require "streamlua"
local job = s.job "after"
local kept, state, walk
job:source("in", s.stdin { format = "json" }):key_by "k"
   :process { name = "p", state = { v = s.value_state(), m = s.map_state() },
     on_record = function(e, ctx)
       if walk then ctx:emit { walk = select(2, pcall(walk)):gsub("^.-:%d+: ", "") .. "" } end
       ctx.state.m:put("a", 1)
       kept, state, walk = ctx, ctx.state.v, ctx.state.m:pairs()
       ctx:emit { n = e.n }
     end }
   :map(function(e)
     e.ctx = select(2, pcall(function() kept:emit { a = 1 } end)):gsub("^.-:%d+: ", "") .. ""
     e.get = select(2, pcall(function() return state:get() end)):gsub("^.-:%d+: ", "") .. ""
     return e
   end)
   :sink("out", s.stdout())
return job
