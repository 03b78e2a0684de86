-- tries: to change the metatable of records and views
-- stderr: setmetatable
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(getmetatable(e) == false and getmetatable(e.l) == false)
     assert(not pcall(setmetatable, e, {}) and not pcall(setmetatable, e.l, {}))
     assert(not pcall(rawset, e, 'i', 1) and not pcall(rawget, e, 'i'))
     assert(not pcall(next, e) and not pcall(rawlen, e))
     setmetatable(e, {})
   end)
   :sink("out", s.stdout())

return job
