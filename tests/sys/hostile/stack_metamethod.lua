-- tries: __index that reads itself
-- stderr: stack overflow|not enough memory
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
     t = setmetatable({}, { __index = function(_, k) return t[k .. 'x'] end })
     return t.a
   end)
   :sink("out", s.stdout())

return job
