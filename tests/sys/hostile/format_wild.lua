-- tries: wild formats
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     for _, f in ipairs { '%', '%99999d', '%.99999f', '%q', '%c%c%c', '%a', '%5.5.5s', '%n', '%p' } do pcall(string.format, f, 1, 2, 3) pcall(string.format, f, 'a\0b') pcall(string.format, f, 0 / 0) end
     for _, f in ipairs { 'i17', '!17', 's9', 'z', 'x', 'X', '<>!16d', ('s8'):rep(1000) } do pcall(string.pack, f, 1, 'x') pcall(string.unpack, f, ('\xff'):rep(100)) pcall(string.packsize, f) end
     return true
   end)
   :sink("out", s.stdout())

return job
