local s = require "streamlua"
local job = s.job "t"
local m = require "broken"
job:source("in", s.stdin()):map(m):sink("out", s.stdout())
return job
