-- tries: a check that fails after the library was emptied
-- stderr: broken_library\.lua:14:
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

for k in pairs(string) do string[k] = nil end
for k in pairs(table) do table[k] = nil end
job:source('x', s.stdin { format = 'nothing' })

job:source("in", s.stdin()):sink("out", s.stdout())

return job
