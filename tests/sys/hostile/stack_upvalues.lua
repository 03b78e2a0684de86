-- tries: a function with 200 upvalues
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local text = {}
for i = 1, 180 do text[i] = 'local v' .. i .. ' = ' .. i end
local sum = {}
for i = 1, 180 do sum[i] = 'v' .. i end
local f = load(table.concat(text, '\n') .. '\nreturn function() return ' .. table.concat(sum, '+') .. ' + 3810 end')()

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return f() == 20100
   end)
   :sink("out", s.stdout())

return job
