local s = require "streamlua"
local job = s.job "ttl"
job:source("in", s.stdin { format = "json" }):event_time { field = "ts", out_of_orderness = "1d" } :key_by "k"
   :process { name = "p", state = { v = s.value_state { ttl = "10s" }, m = s.map_state { ttl = "10s" }, l = s.list_state { ttl = "10s" },
       r = s.value_state { ttl = "10s", ttl_update = "read_and_write" }, a = s.aggregating_state(s.count(), { ttl = "10s" }) },
     on_record = function(e, ctx)
       local st, m = ctx.state, {}
       for k in st.m:pairs() do m[#m + 1] = k end
       ctx:emit { ts = e.ts, v = st.v:get(), r = st.r:get(), m = s.list(m), l = s.list(st.l:get()), a = st.a:get(), has = st.m:has(0) }
       if e.ts == 0 then st.v:set(1) st.r:set(1) end
       if e.ts < 12000 then st.m:put(e.ts, true) st.l:add(e.ts) end
       if e.ts == 0 then st.a:add(e) end
     end }
   :sink("out", s.stdout())
return job
