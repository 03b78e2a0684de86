local s = require "streamlua"
local job = s.job "fan-out"
local p = job:source("logs", s.stdin { format = "json" }):split(function(e) return e.level == "error" and "errors" or "rest" end, { "errors", "rest" })
p.errors:sink("errors", s.file { path = "errors" })
p.rest:sink("rest", s.file { path = "rest" }):sink("count", s.blackhole())
return job
