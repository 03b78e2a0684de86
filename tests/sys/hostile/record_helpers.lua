-- tries: the functions of the module with wild values
-- out: all
-- seconds: 20
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "20s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local values = { 1, 0 / 0, 'x', {}, print, e, e.l, s.null, true, coroutine.create(print), ('x'):rep(100000), { [{}] = 1 } }
     for name, f in pairs(s) do
       if type(f) == 'function' and name ~= 'job' then
         pcall(f)
         for _, a in ipairs(values) do
           pcall(f, a)
           for _, b in ipairs(values) do pcall(f, a, b) pcall(f, 'json', a, b) end
         end
       end
     end
     return { i = 5 }
   end)
   :sink("out", s.stdout())

return job
