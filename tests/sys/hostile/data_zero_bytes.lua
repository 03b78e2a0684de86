-- tries: strings with embedded zeros
-- out: all
-- stdout: "n\\u0000m":1,"v":"a\\u0000b"
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return { i = 5, v = ('%s'):format('a\0b'), ['n\0m'] = 1 }
   end)
   :sink("out", s.stdout())

return job
