-- tries: an error of zeros, escapes and bytes that are no UTF-8
-- stderr: a
-- args: --log-format json
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     error('a\0b\27[31m\xff\r\n:1: %s%n')
   end)
   :sink("out", s.stdout())

return job
