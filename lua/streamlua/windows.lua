-- Window specs: s.tumbling, s.hopping, s.global.
local check = require "streamlua.check"
local where, fail = check.where, check.fail

local M = {}

local function window(w, place)
  w.place = place
  return check.new("window spec", w)
end

function M.tumbling(size, o)
  local place = where()
  local w = check.options(place, "tumbling", o, "tumbling")
  w.clock = nil
  w.kind, w.size_ms = "tumbling", check.arg(place, "tumbling", "size", "period", size)
  w.slide_ms, w.offset_ms = w.size_ms, w.offset_ms or 0
  return window(w, place)
end

function M.hopping(size, slide, o)
  local place = where()
  local w = check.options(place, "hopping", o, "hopping")
  w.clock = nil
  w.kind, w.size_ms = "hopping", check.arg(place, "hopping", "size", "period", size)
  w.slide_ms, w.offset_ms = check.arg(place, "hopping", "slide", "period", slide), w.offset_ms or 0
  if w.slide_ms > w.size_ms then
    fail(place, "hopping", "the slide (%d ms) is larger than the size (%d ms); the order is "
      .. "hopping(size, slide), SQL's HOP has them reversed", w.slide_ms, w.size_ms)
  end
  return window(w, place)
end

function M.global(o)
  local place = where()
  if o ~= nil then fail(place, "global", "takes no options, got %s", check.got(o)) end
  return window({ kind = "global" }, place)
end

return M
