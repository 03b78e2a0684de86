-- tries: a module that does not end
-- stderr: lib_endless\.lua:2: loading took longer
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", load_timeout = "500ms" },
})

require 'lib_endless'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
