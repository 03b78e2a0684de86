-- tries: to change the locale
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(os.setlocale == nil)
     assert(('%.1f'):format(1.5) == '1.5' and tonumber '1,5' == nil)
     return true
   end)
   :sink("out", s.stdout())

return job
