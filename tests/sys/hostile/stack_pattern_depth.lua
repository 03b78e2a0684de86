-- tries: a pattern that is too complex
-- stderr: too complex|held|took longer|not enough memory
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return ('a'):rep(300000):find('(.-)%1' .. ('a?'):rep(300000))
   end)
   :sink("out", s.stdout())

return job
