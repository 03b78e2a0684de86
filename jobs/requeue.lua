-- Sends what is in a quarantine topic where it came from, once more: the bytes,
-- key, headers and time of each record as they were, without the headers of the
-- error. For when the job that could not take them is repaired.
--
--   streamlua run jobs/requeue.lua --set from=bad --set to=payments \
--     --until-idle 5s --bootstrap-servers localhost:9092
--
-- Only records that were read from `to` are sent. The quarantine keeps them: how
-- far it was sent is in the checkpoint, so the next run goes on from there, and
-- one of another name, or with --fresh, sends all of it again. Rows and timers
-- that failed have no record and stay behind.
local s = require "streamlua"

local from = s.param "from"
local to = s.param "to"
local cause = s.param("cause", "") -- only these: "user_error", …; "": all

local job = s.job(s.param("name", "requeue"), { checkpoint = { interval = "10s" } })

-- The headers of the last failure: a record may have failed before.
local function failure(e)
  local h = {}
  for _, pair in ipairs(s.headers(e)) do h[pair[1]] = pair[2] end
  return h
end

job:source("bad", s.kafka { topic = from, format = "raw", start = "earliest" })
   :filter(function(e)
     local h = failure(e)
     return h["__streams.errors.topic"] == to and (cause == "" or h["__streamlua.errors.cause"] == cause)
   end)
   :map(function(e)
     local h = failure(e)
     s.set_timestamp(e, math.tointeger(tonumber(h["__streamlua.errors.timestamp"])))
     for name in pairs(h) do
       if name:find "^__streams%.errors%." or name:find "^__streamlua%.errors%." then s.set_header(e, name, nil) end
     end
     return e
   end)
   :sink("again", s.kafka { topic = to, format = "raw", delivery = "exactly_once" })

return job
