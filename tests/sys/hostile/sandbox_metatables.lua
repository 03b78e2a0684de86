-- tries: metatables of strings, numbers, functions, nil
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(getmetatable('') == false and getmetatable(1) == nil and getmetatable(print) == nil)
     assert(getmetatable(s.null) == false)
     assert(not pcall(setmetatable, '', {}) and not pcall(setmetatable, print, {}))
     return true
   end)
   :sink("out", s.stdout())

return job
