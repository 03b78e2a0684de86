-- tries: the same in the options of a step
-- stderr: .
-- seconds: 30
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local t = { 1 }
for i = 1, 60 do t = { t, t } end
job:source('g', s.generator { count = 1, fields = { t = t } }):sink('gout', s.blackhole())

job:source("in", s.stdin()):sink("out", s.stdout())

return job
