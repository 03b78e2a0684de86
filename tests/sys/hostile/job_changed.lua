-- tries: to change the job's own tables
-- exit: 0 or 65
-- out: any
-- stderr-not: internal error
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

pcall(function() job.x = 1 end)
assert(not pcall(function() s.sum = 1 end))
assert(not pcall(setmetatable, job, {}))
pcall(rawset, job, 'name', {})
pcall(rawset, s, 'stdin', 1)

job:source("in", s.stdin()):sink("out", s.stdout())

return job
