local s = require "streamlua"
local job = s.job "undo"
job:source("in", s.stdin { format = "json" }):event_time { field = "ts" } :key_by "k"
   :process { name = "p", outputs = { "side" }, on_error = "skip",
     state = { n = s.value_state(), m = s.map_state(), l = s.list_state(), sum = s.aggregating_state(s.sum "v"),
               r = s.reducing_state(function(a, b) return a + b end) },
     on_record = function(e, ctx)
       local st = ctx.state
       st.n:set((st.n:get() or 0) + 1)
       st.m:put(e.v, e.v)
       st.l:add(e.v)
       st.sum:add(e)
       st.r:add(e.v)
       ctx:register_event_timer(e.ts + 1000)
       if e.del then ctx:delete_event_timer(e.del); st.m:clear(); st.l:update {} end
       ctx:emit { v = e.v }
       ctx:emit_to("side", { side = e.v })
       if e.bad then error "bad" end
       local m = {}
       for k in st.m:pairs() do m[#m + 1] = k end
       ctx:emit { n = st.n:get(), m = s.list(m), l = s.list(st.l:get()), sum = st.sum:get(), r = st.r:get() }
     end,
     on_timer = function(ts, ctx)
       ctx:emit { timer = ts, n = ctx.state.n:get() }
       ctx.state.n:set(-1)
       if ts == 1003 then error "timer" end
     end }
   :sink("out", s.stdout())
return job
