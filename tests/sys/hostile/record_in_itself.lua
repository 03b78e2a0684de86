-- tries: a record in itself, a map in itself
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     e.a = e
     e.a.a = e.a
     e.m.m = e.m
     e.l[1] = e.l
     e.l = { e.l, e.m }
     return e
   end)
   :sink("out", s.stdout())

return job
