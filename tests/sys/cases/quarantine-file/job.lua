local s = require "streamlua"
local job = s.job("t", { quarantine = s.file { path = "bad" } })
local src = job:source("in", s.stdin { on_error = "quarantine" })
src:event_time { field = "ts" }
   :map(function(e)
      if e.n < 0 then error("negative " .. e.n) end
      return { n = e.n, k = e.k }
   end, { name = "check", on_error = "quarantine" })
   :sink("out", s.stdout())
return job
