-- What keyed steps cost beside a plain count of the same windows; no output.
local s = require "streamlua"

local how = s.param("how", "count")
local job = s.job("bench-windows", {
  parallelism = s.param("p", 1),
  agg_phase_strategy = s.param("strategy", "AUTO"),
})

local keyed = job:source("events", s.kafka {
     topic = s.param("topic", "bench"), start = "earliest",
   })
   :event_time { field = "ts" }
   :key_by(s.param("by", "metric_name"))

local tumbling = s.tumbling "1s"
local rows
if how == "count" then
  rows = keyed:window(tumbling):aggregate({ n = s.count() }, { name = "step" })
elseif how == "where" then
  rows = keyed:window(tumbling):aggregate({
    n = s.count(nil, { where = function(e) return e.value > 500 end }),
  }, { name = "step" })
elseif how == "top_n" then
  rows = keyed:window(tumbling):top_n { name = "step", n = 10, by = "value" }
elseif how == "reduce" then
  rows = keyed:window(tumbling):reduce(function(a, b)
    if a.value ~= b.value then return a.value > b.value and a or b end
    return tostring(a) < tostring(b) and a or b
  end, { name = "step" })
elseif how == "q5" then -- the hottest keys of every second, by two seconds
  rows = keyed:window(s.hopping("2s", "1s"))
    :aggregate({ n = s.count() }, { name = "step" })
    :key_by {}:window(s.same())
    :top_n { name = "hot", n = 1, by = "n", ties = true }
elseif how == "updating" then
  rows = keyed:aggregate({ n = s.count(), sum = s.sum "value" },
    { name = "step" })
elseif how == "clock" then
  rows = keyed:window(s.tumbling("1s", { clock = "processing" }))
    :aggregate({ n = s.count() }, { name = "step" })
elseif how == "count_window" then
  rows = keyed:window(s.count_window(100))
    :aggregate({ n = s.count(), sum = s.sum "value" }, { name = "step" })
end
rows:sink("out", s.blackhole {})

return job
