-- tries: an error whose __tostring fails, caught and printed
-- stderr: again
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local ok, x = pcall(error, setmetatable({}, { __tostring = function() error 'again' end }))
     print(x)
   end)
   :sink("out", s.stdout())

return job
