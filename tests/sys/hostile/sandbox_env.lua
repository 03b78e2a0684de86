-- tries: a function with a table of its own as globals
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local env = setmetatable({}, { __index = _G })
     load('x = 1; function f() y = 2 end f()', 'own', 't', env)()
     return env.x == 1 and env.y == 2 and x == nil
   end)
   :sink("out", s.stdout())

return job
