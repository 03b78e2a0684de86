-- tries: a ring of __index
-- stderr: loop|took longer
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local a, b = {}, {}
     setmetatable(a, { __index = b })
     setmetatable(b, { __index = a })
     return a.x
   end)
   :sink("out", s.stdout())

return job
