-- tries: to assign globals in a call
-- stderr: assignment to global 'fresh'; declare it local
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

require 'lib_global'

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local tries = {
       function() fresh = 1 end, function() _G.fresh = 1 end, function() print = nil end,
       function() rawset(_G, 'fresh', 1) end, function() _ENV.fresh = 1 end,
       function() local _ENV = _G; fresh = 1 end, function() load('fresh = 1')() end,
       function() load('fresh = 1', 'x', 't', _G)() end,
       function() package.loaded._G.fresh = 1 end, function() require('_G').fresh = 1 end,
       function() table.insert(_G, 1) end, function() table.move({ 1 }, 1, 1, 1, _G) end,
       function() setmetatable(_G, {}) end, function() table.sort(_G, function() end) _G[1] = 1 end,
       function() getmetatable(_G).__newindex = nil end, function() getmetatable('').__index = nil end,
       function() coroutine.wrap(function() fresh = 1 end)() end,
       function() require('lib_global').set() end,
     }
     for i, f in ipairs(tries) do assert(not pcall(f), i) end
     assert(fresh == nil and rawget(_G, 'fresh') == nil and print)
     fresh = 1
   end)
   :sink("out", s.stdout())

return job
