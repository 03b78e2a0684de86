-- tries: to add steps while the job runs
-- exit: 0
-- out: all but 5
-- stderr: .
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local st
job:source('in', s.stdin()):filter(function(e) if e.i == 5 then st:filter(print) end return true end):sink('out', s.stdout())
st = job
return job
