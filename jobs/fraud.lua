-- A small payment, then a large one within a minute: somebody tries a stolen
-- card. One value and one timer for each account.
--
--   streamlua run jobs/fraud.lua --set input=payments.jsonl
--
-- What comes in, a line each: {"account":1,"amount":0.5,"ts":1000}
local s = require "streamlua"

local input  = s.param("input", "-")      -- a file, or "-": standard input
local small  = s.param("small", 1.0)      -- less than this is a probe
local large  = s.param("large", 500.0)    -- more than this is the haul
local within = s.param("within", 60000)   -- ms

local job = s.job "fraud"

job:source("payments", input == "-" and s.stdin() or s.file { path = input })
   :event_time { field = "ts", out_of_orderness = "10s" }
   :key_by "account"
   :process {
     name = "fraud",
     state = { probe = s.value_state() }, -- when the last probe was

     on_record = function(e, ctx)
       local at = ctx.state.probe:get()
       if at and e.amount > large and e.ts - at <= within then
         ctx:emit { account = e.account, amount = e.amount, probe = at, at = e.ts }
       end
       if at then
         ctx.state.probe:clear()
         ctx:delete_event_timer(at + within)
       end
       if e.amount < small then
         ctx.state.probe:set(e.ts)
         ctx:register_event_timer(e.ts + within)
       end
     end,

     -- Nothing came in time: the account takes no memory any more.
     on_timer = function(ts, ctx)
       ctx.state.probe:clear()
     end,
   }
   :sink("alerts", s.stdout())

return job
