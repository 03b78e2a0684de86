local s = require "streamlua"
local job = s.job("t", { on_error = "skip", lua = { call_timeout = "200ms" } })
job:source("in", s.stdin())
   :filter(function() return ("a"):rep(22):find(("a?"):rep(22) .. ("a"):rep(22) .. "b") == nil end)
   :sink("out", s.stdout())
return job
