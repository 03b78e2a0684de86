local s = require "streamlua"
local job = s.job("t")
-- p1 gives only records that the filter drops, then one early record.
local src = s.source { partitions = 2,
  read = function(position, max, p)
    local at = position or 0
    if p == 0 then
      if at >= 80 then return nil end
      if at % 2 == 0 then return {}, at + 1 end
      return { { k = "a", ts = at * 1000 } }, at + 1
    end
    if at >= 101 then return nil end
    if at == 100 then return { { k = "a", ts = 0 } }, at + 1 end
    if at % 2 == 0 then return {}, at + 1 end
    return { { k = "skip", ts = 0 } }, at + 1
  end }
job:source("in", src, { parallelism = 1 })
   :filter(function(e) return e.k ~= "skip" end)
   :event_time { field = "ts", idle = "400ms" }
   :key_by "k":window(s.tumbling "10s"):aggregate { n = s.count() }
   :sink("out", s.stdout())
return job
