-- The first time that a user does something: each event of a kind that the
-- user did not do within the last 90 days, with how many kinds are known. What
-- is not done any more is forgotten, kind by kind.
--
--   streamlua run jobs/first_seen.lua --set input=events.jsonl
--
-- What comes in, a line each: {"user":"ann","kind":"login","ts":0}
local s = require "streamlua"

local input = s.param("input", "-")       -- a file, or "-": standard input

local job = s.job "first-seen"

local seen = job:source("events", input == "-" and s.stdin() or s.file { path = input })
   :event_time { field = "ts", out_of_orderness = "1m" }
   :key_by "user"
   :process {
     name = "first-seen",
     outputs = { "new_users" },
     state = {
       -- kind -> how often. Each entry has a time of its own, by which it is
       -- forgotten; writing renews it.
       kinds = s.map_state { ttl = "90d" },
     },

     on_record = function(e, ctx)
       local kinds = ctx.state.kinds
       local n = kinds:get(e.kind)
       kinds:put(e.kind, (n or 0) + 1)
       if n then return end
       local known = 0
       for _ in kinds:pairs() do known = known + 1 end
       ctx:emit { user = e.user, kind = e.kind, at = e.ts, known = known }
       if known == 1 then ctx:emit_to("new_users", { user = e.user, at = e.ts }) end
     end,
   }

seen:sink("out", s.stdout())
seen:side_output "new_users":sink("users", s.file { path = s.param("users", "new-users") })

return job
