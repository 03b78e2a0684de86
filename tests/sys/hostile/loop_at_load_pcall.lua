-- tries: the same, caught, in a coroutine
-- stderr: load_timeout
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", load_timeout = "500ms" },
})

while true do
  pcall(coroutine.wrap(function() while true do pcall(function() while true do end end) end end))
end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
