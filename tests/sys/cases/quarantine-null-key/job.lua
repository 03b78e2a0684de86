local s = require "streamlua"
local job = s.job("t", { parallelism = 4, quarantine = s.file { path = "bad" } })
local src = job:source("in", s.stdin())
src:key_by({ "k" }, { on_null = "quarantine" }):window(s.global()):aggregate { n = s.count() }
   :sink("out", s.stdout())
src:key_by({ "k" }, { on_null = "quarantine" }):dedup { name = "first", ttl = false }:sink("once", s.blackhole())
return job
