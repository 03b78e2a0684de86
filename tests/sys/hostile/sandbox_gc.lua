-- tries: __gc that never runs
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "2MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     for i = 1, 10000 do setmetatable({}, { __gc = function() while true do end end }) end
     local mt = {}
     local t = setmetatable({}, mt)
     mt.__gc = error
     return true
   end)
   :sink("out", s.stdout())

return job
