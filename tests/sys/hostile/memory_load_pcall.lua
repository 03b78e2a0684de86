-- tries: the same, caught
-- stderr: not enough memory|load_timeout
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", load_timeout = "1s" },
})

local t = {}
while true do pcall(function() while true do t[#t + 1] = { #t } end end) end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
