local s = require "streamlua"
local job = s.job "agg"
local vwap = s.aggregator { args = { "price", "qty" },
  init    = function() return { 0, 0 } end,
  add     = function(a, p, q) a[1] = a[1] + p * q; a[2] = a[2] + q; return a end,
  merge   = function(a, b) a[1] = a[1] + b[1]; a[2] = a[2] + b[2]; return a end,
  result  = function(a) if a[2] ~= 0 then return a[1] / a[2] end end }
job:source("in", s.stdin { format = "json" }):key_by "k"
   :process { name = "p", on_error = "skip",
     state = { r = s.reducing_state(math.max), n = s.aggregating_state(s.count()), sum = s.aggregating_state(s.sum "price"),
               own = s.aggregating_state(vwap), p = s.aggregating_state(s.percentile("price", { 0.5, 1 })),
               f = s.aggregating_state(s.max(function(e) return e.price * 2 end)) },
     on_record = function(e, ctx)
       local st = ctx.state
       if e.n == 0 then
         ctx:emit { n = st.n:get(), sum = st.sum:get() == nil, own = st.own:get() == nil, r = st.r:get() == nil }
       end
       st.r:add(e.price) st.n:add(e) st.sum:add(e) st.own:add(e) st.p:add(e.price) st.f:add(e)
       if e.n == 2 then
         ctx:emit { r = st.r:get(), n = st.n:get(), sum = st.sum:get(), own = st.own:get(), p = st.p:get(), f = st.f:get() }
         st.sum:clear() st.own:clear()
         st.sum:add { price = 2 }
         st.sum:add(0.5)
         ctx:emit { sum = st.sum:get(), own = st.own:get() == nil }
       end
     end }
   :sink("out", s.stdout())
return job
