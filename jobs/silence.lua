-- A device that was heard of and is silent for five minutes, and when it is
-- back. Event time decides, so a restart or a slow network invents no silence.
--
--   streamlua run jobs/silence.lua --set input=beats.jsonl
--
-- What comes in, a line each: {"device":"d1","ts":0}
local s = require "streamlua"

local input  = s.param("input", "-")      -- a file, or "-": standard input
local limit  = s.param("limit", 300000)   -- ms of silence

local job = s.job "silence"

job:source("beats", input == "-" and s.stdin() or s.file { path = input })
   -- When all devices are silent nothing moves event time but the wall clock.
   :event_time { field = "ts", out_of_orderness = "10s", all_idle = "1m" }
   :key_by "device"
   :process {
     name = "silence",
     state = {
       last = s.value_state(), -- the newest beat
       down = s.value_state(), -- since when it is silent; nothing: it is not
     },

     on_record = function(e, ctx)
       local last, down = ctx.state.last, ctx.state.down
       local was = last:get()
       if was and e.ts <= was then return end -- an old beat, late
       if down:get() then
         ctx:emit { device = e.device, back = e.ts, silent_since = was }
         down:clear()
       elseif was and e.ts - was >= limit then
         -- This beat ends a silence that no watermark has told of yet: a
         -- record is handled before the watermark it causes.
         ctx:emit { device = e.device, silent_since = was }
         ctx:emit { device = e.device, back = e.ts, silent_since = was }
       end
       if was then ctx:delete_event_timer(was + limit) end
       last:set(e.ts)
       ctx:register_event_timer(e.ts + limit)
     end,

     on_timer = function(ts, ctx)
       ctx.state.down:set(true)
       ctx:emit { device = ctx:key(), silent_since = ts - limit }
     end,
   }
   :sink("out", s.stdout())

return job
