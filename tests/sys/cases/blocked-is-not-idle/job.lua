local s = require "streamlua"
local job = s.job "t"
-- Two partitions in step; the sink is slower than idle. Were the blocked
-- partition called idle, the other one's watermark would make it late.
local src = s.source { partitions = 2, read = function(position, max, p)
  local at = position or 0
  if at >= 40 then return nil end
  local out = {}
  for i = at, math.min(at + max, 40) - 1 do
    out[#out + 1] = { k = "p" .. p, ts = i * 1000 + p * 7 }
  end
  return out, at + #out
end }
job:source("in", src):event_time { field = "ts", idle = "20ms", out_of_orderness = "60s" }
   :key_by "k" :window(s.tumbling "10s") :aggregate { n = s.count() }
   :sink("out", s.stdout())
local spin = s.sink { write = function()
  local t = os.clock()
  while os.clock() - t < 0.03 do end
end }
job:source("in2", src):sink("slow", spin)
return job
