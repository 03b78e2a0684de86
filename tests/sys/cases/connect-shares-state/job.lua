local s = require "streamlua"
local job = s.job "connect"
local input = job:source("in", s.stdin { format = "json" }):event_time { field = "ts", out_of_orderness = "1h" }
local orders = input:filter(function(e) return e.order ~= nil end)
local paid = input:filter(function(e) return e.paid ~= nil end)
local function pair(mine, other)
  return function(e, ctx)
    local o = ctx.state[other]:get()
    if o then
      ctx.state[other]:clear()
      ctx:delete_event_timer(math.min(o.ts, e.ts) + 1000)
      ctx:delete_event_timer(math.max(o.ts, e.ts) + 1000)
      ctx:emit({ took = math.abs(e.ts - o.ts), key = ctx:key() }, math.max(o.ts, e.ts))
    else
      ctx.state[mine]:set(s.table(e))
      ctx:register_event_timer(e.ts + 1000)
    end
  end
end
orders:key_by { "order", "shop" } :connect(paid:key_by { "paid", { "where", function(e) return e.shop end } })
   :process { name = "match", outputs = { "unpaid" },
     state = { left = s.value_state(), right = s.value_state() },
     on_left = pair("left", "right"), on_right = pair("right", "left"),
     on_timer = function(ts, ctx)
       for _, side in ipairs { "left", "right" } do
         local o = ctx.state[side]:get()
         if o then ctx:emit { alone = side, since = o.ts, ts = ts } end
       end
     end }
   :sink("out", s.stdout { envelope = true })
return job
