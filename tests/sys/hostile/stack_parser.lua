-- tries: text with a hundred thousand brackets
-- stderr: overflow
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     assert(load('return ' .. ('('):rep(100000) .. '1' .. (')'):rep(100000)))
   end)
   :sink("out", s.stdout())

return job
