local s = require "streamlua"
local job = s.job "plain"
job:source("in", s.stdin { format = "json" }):key_by "k"
   :process { name = "p", state = { v = s.value_state(), m = s.map_state(), l = s.list_state() },
     on_record = function(e, ctx)
       local st, out = ctx.state, {}
       local function try(f, ...)
         local ok, why = pcall(f, ...)
         out[#out + 1] = ok and "ok" or why:gsub("^.-:%d+: ", "")
       end
       local circle = {}
       circle.a = { circle }
       try(function() st.v:set(print) end)
       try(function() st.v:set { a = { 1, { b = print } } } end)
       try(function() st.v:set(circle) end)
       try(function() st.v:set(e) end)
       try(function() st.v:set { [5] = 1 } end)
       try(function() st.v:set { 1, 2, x = 3 } end)
       try(function() st.v:set { 1, 2, [4] = 3 } end)
       try(function() st.v:set { [1.5] = 3 } end)
       try(function() st.m:put(nil, 1) end)
       try(function() st.m:put(0 / 0, 1) end)
       try(function() st.l:add(nil) end)
       try(function() st.l:update "x" end)
       try(function() st.l:update { 1, print } end)
       try(function() st.x:get() end)
       try(function() ctx.state.v = 1 end)
       try(function() ctx.x = 1 end)
       try(function() ctx.emit { a = 1 } end)
       try(function() ctx:emit_to("x", { a = 1 }) end)
       try(function() ctx:emit(1) end)
       try(function() ctx["register_event_timer"](ctx, 1) end)
       try(function() ctx:clock() end)
       for _, v in ipairs { 1, 1.0, -0.0, "1", "", true, false, s.null, s.list {}, {}, { 1, { 2 } }, { a = { b = {} } },
                            math.mininteger, 1e300, "\u{e4}\0b" } do
         st.v:set(v)
         local w = st.v:get()
         assert(math.type(v) == math.type(w) and type(v) == type(w))
         assert(s.encode("json", v) == s.encode("json", w))
       end
       st.v:set(nil)
       assert(st.v:get() == nil)
       assert(#st.l:get() == 0)
       for _, t in ipairs(out) do ctx:emit { t = t } end
     end }
   :sink("out", s.stdout())
return job
