-- tries: wild values of job options
-- exit: 0 or 65
-- out: any
-- stderr-not: internal error
-- seconds: 20
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local values = { 0 / 0, math.huge, -1, math.mininteger, "", ("x"):rep(100000), {}, print, s.null, true, coroutine.create(print) }
local names = { "parallelism", "max_parallelism", "checkpoint", "state", "memory", "lua", "restart", "on_error", "mini_batch", "nothing" }
for _, v in ipairs(values) do
  for _, n in ipairs(names) do pcall(s.job, "x", { [n] = v }) end
  for _, f in ipairs { s.kafka, s.file, s.generator, s.source, s.sink, s.tumbling, s.hopping, s.sum, s.percentile, s.aggregator, s.read, s.param } do pcall(f, v) pcall(f, { v }) pcall(f, "a", v) end
end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
