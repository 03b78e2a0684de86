-- Most events have one key, and the job does not slow down: each slot
-- combines its own events first, and only the sums meet.
--
--   streamlua run jobs/hotkey.lua --summary summary.json
--
-- In the summary, steps["aggregate-1"]["local"].reduction says how many
-- events became one partial result. Compare with one phase:
--
--   streamlua run jobs/hotkey.lua --set strategy=ONE_PHASE --set count=5000000
local s = require "streamlua"

local job = s.job("hotkey", {
  agg_phase_strategy = s.param("strategy", "AUTO"),
})

job:source("gen", s.generator {
     count = s.param("count", 100000),
     partitions = 4,
     fields = {
       k = s.gen.cycle { "hot", "hot", "hot", "hot", "cold" },
       ts = s.gen.time { start = 0, step = "1ms" },
       v = s.gen.sequence {},
     },
   })
   :event_time { field = "ts" }
   :key_by "k"
   :window(s.tumbling "1m")
   :aggregate { n = s.count(), max = s.max "v" }
   :sink("out", s.stdout())

return job
