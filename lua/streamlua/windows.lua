-- Window specs: s.tumbling, s.hopping, s.global, s.same, s.count_window.
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
  if w.clock == "event" then w.clock = nil end
  w.kind, w.size_ms = "tumbling", check.arg(place, "tumbling", "size", "period", size)
  w.slide_ms, w.offset_ms = w.size_ms, w.offset_ms or 0
  return window(w, place)
end

function M.hopping(size, slide, o)
  local place = where()
  local w = check.options(place, "hopping", o, "hopping")
  if w.clock == "event" then w.clock = nil end
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

function M.same(o)
  local place = where()
  if o ~= nil then fail(place, "same", "takes no options, got %s", check.got(o)) end
  return window({ kind = "same" }, place)
end

function M.count_window(n, slide, o)
  local place = where()
  if o ~= nil or type(slide) == "table" then fail(place, "count_window", "takes no options, got %s", check.got(o or slide)) end
  local w = { kind = "count", size = check.arg(place, "count_window", "size", "int(1,1000000000)", n) }
  w.slide = slide == nil and w.size or check.arg(place, "count_window", "slide", "int(1,1000000000)", slide)
  if w.slide > w.size then
    fail(place, "count_window", "the slide (%d) is larger than the size (%d); the order is count_window(size, slide)",
      w.slide, w.size)
  end
  return window(w, place)
end

return M
