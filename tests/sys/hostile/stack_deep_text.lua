-- tries: JSON text a million levels deep
-- stderr: .
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return s.decode('json', ('['):rep(1000000) .. (']'):rep(1000000))
   end)
   :sink("out", s.stdout())

return job
