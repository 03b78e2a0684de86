-- tries: string.format of what formats itself
-- stderr: stack overflow
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t
     t = setmetatable({}, { __tostring = function() return ('%s'):format(t) end })
     return ('%s'):format(t)
   end)
   :sink("out", s.stdout())

return job
