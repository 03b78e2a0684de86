-- tries: to fill memory while the file is loaded
-- stderr: not enough memory
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local t = {}
while true do t[#t + 1] = { #t } end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
