-- tries: NaN, tables, functions as keys
-- out: some
-- stderr: contains itself|function
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :key_by { { "k", function(e)
     local bad = { [2] = 0 / 0, [3] = print, [4] = setmetatable({}, { __index = error }) }
     bad[5] = bad
     if bad[e.i] ~= nil then return bad[e.i] end
     return e.i
   end } }
   :process { name = "p", on_record = function(e, ctx) ctx:emit(e) end }
   :sink("out", s.stdout())

return job
