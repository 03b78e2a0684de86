local s = require "streamlua"
local job = s.job "t"
local f
local src = s.source { read = function(position, max)
  local from = position or 0
  if from >= 5 then return nil end
  local out = {}
  for i = from + 1, math.min(from + max, 5) do out[#out + 1] = { i = i } end
  return out, from + #out
end }
job:source("numbers", src):sink("squares", s.sink {
  open  = function() f = assert(io.open("out.txt", "a")) end,
  write = function(batch) for _, e in ipairs(batch) do f:write(e.i * e.i, "\n") end end,
  flush = function() f:flush() end, close = function() f:close() end })
return job
