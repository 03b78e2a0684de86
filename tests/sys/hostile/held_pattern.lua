-- tries: a pattern that takes for ever, in C
-- stderr: held by filter-1 for [0-9]+s
-- stderr: stop timeout
-- out: any
-- term: held by
-- args: --stop-timeout 500ms
-- exit: 143
-- seconds: 15
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return ('a'):rep(200):find(('.-'):rep(20) .. 'b') == nil
   end)
   :sink("out", s.stdout())

return job
