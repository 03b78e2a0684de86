-- tries: a pattern with a thousand captures
-- stderr: too many captures|pattern too complex
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return ('x'):find(('('):rep(1000) .. (')'):rep(1000))
   end)
   :sink("out", s.stdout())

return job
