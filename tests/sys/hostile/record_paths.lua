-- tries: wild paths
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     for _, p in ipairs { '', '.', '..', 'l.', '.l', 'l.1.2.3', 'l.99999999999999999999', '\\', 'a\\', 'm.a.b.c', ('m.'):rep(1000), '\0' } do
       pcall(function() return e[p] end)
       pcall(function() e[p] = 1 end)
       pcall(s.has, e, p)
     end
     return { i = 5 }
   end)
   :sink("out", s.stdout())

return job
