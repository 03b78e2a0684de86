-- tries: to steer the collector
-- stderr: only "count"
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(collectgarbage 'count' > 0)
     for _, o in ipairs { 'collect', 'stop', 'restart', 'step', 'incremental', 'generational', 'setpause', 'isrunning' } do assert(not pcall(collectgarbage, o), o) end
     collectgarbage()
   end)
   :sink("out", s.stdout())

return job
