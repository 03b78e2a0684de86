-- tries: a message key above 64 KiB
-- stderr: 64 KiB
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     s.set_key(e, ('x'):rep(70000))
     return e
   end)
   :sink("out", s.stdout())

return job
