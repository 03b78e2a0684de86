-- tries: to edit package.path and the searchers
-- exit: 0
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

package.path = '/nowhere/?.lua'
assert(not pcall(require, 'lib_global'))
package.path = 17
assert(not pcall(require, 'lib_global'))
package.searchers = nil
assert(not pcall(require, 'lib_global'))
package.preload.own = function() return 7 end
assert(true)

job:source("in", s.stdin()):sink("out", s.stdout())

return job
