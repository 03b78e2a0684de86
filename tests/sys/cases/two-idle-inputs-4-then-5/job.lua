local s = require "streamlua"
local job = s.job "t"
local function once(ts)
  return s.source { read = function(position)
    if position then return {}, position end
    return { { k = "a", ts = ts } }, 1
  end }
end
local a = job:source("a", once(4)):event_time { field = "ts", idle = "50ms" }
local b = job:source("b", once(5)):event_time { field = "ts", idle = "50ms" }
a:union(b):sink("out", s.stdout())
return job
