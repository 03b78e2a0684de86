-- State handles of process: s.value_state, s.list_state, s.map_state,
-- s.reducing_state, s.aggregating_state.
local check = require "streamlua.check"
local where = check.where

local M = {}

local function handle(place, kind, o, more)
  local h = check.options(place, kind .. "_state", o, "state_handle")
  for k, v in pairs(more or {}) do h[k] = v end
  h.kind, h.place = kind, place
  return check.new("state handle", h)
end

for _, kind in ipairs { "value", "list", "map" } do
  M[kind .. "_state"] = function(o) return handle(where(), kind, o) end
end

function M.reducing_state(f, o)
  local place = where()
  if type(f) ~= "function" then check.expected(place, "reducing_state", "first argument", "a function", f) end
  return handle(place, "reducing", o, { func = f })
end

function M.aggregating_state(a, o)
  local place = where()
  if check.kind(a) ~= "aggregator" then
    check.expected(place, "aggregating_state", "first argument", 'an aggregator such as s.sum "value"', a)
  end
  local h = handle(place, "aggregating", o, { agg = check.data(a) })
  if check.data(h).migrate ~= nil then
    check.fail(place, "aggregating_state", 'option "migrate" belongs to s.aggregator; built-in aggregators have none')
  end
  return h
end

return M
