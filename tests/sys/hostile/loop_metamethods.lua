-- tries: metamethods that call each other
-- stderr: the call took longer than call_timeout \(1000 ms\)
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local mt = {}
     for _, n in ipairs { '__add', '__concat', '__lt', '__eq', '__call', '__len', '__unm' } do
       mt[n] = function() while true do end end
     end
     local t = setmetatable({}, mt)
     while true do pcall(function() return t + t end) pcall(function() return #t end) end
   end)
   :sink("out", s.stdout())

return job
