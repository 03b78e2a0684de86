-- tries: table functions on views with wild numbers
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local l = e.l
     pcall(table.insert, l, math.mininteger, 1)
     pcall(table.remove, l, math.maxinteger)
     pcall(table.move, l, 1, 3, math.maxinteger - 1)
     pcall(table.unpack, l, 1, 1e8)
     pcall(table.sort, l, function() return true end)
     pcall(table.concat, e.m)
     return e
   end)
   :sink("out", s.stdout())

return job
