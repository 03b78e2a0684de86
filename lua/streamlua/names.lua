-- Nearest names, for "did you mean".
local M = {}

-- Damerau-Levenshtein distance (adjacent swaps count one).
local function distance(a, b)
  local before, row, n = {}, {}, #b
  for j = 0, n do row[j] = j end
  for i = 1, #a do
    local next_row = { [0] = i }
    for j = 1, n do
      local same = a:byte(i) == b:byte(j)
      local d = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        d = math.min(d, before[j - 2] + 1)
      end
      next_row[j] = d
    end
    before, row = row, next_row
  end
  return row[n]
end

-- What Flink, SQL and others call it.
local elsewhere = {
  tumble = "tumbling", hop = "hopping", slide = "hopping", sliding = "hopping",
  mean = "avg", average = "avg", quantile = "percentile", stddev = "stddev_samp", variance = "var_samp",
  approx_count_distinct = "distinct", first_value = "first", last_value = "last",
  where = "filter", group_by = "key_by", groupby = "key_by", sink_to = "sink", sinkto = "sink",
  watermark = "event_time", assign_timestamps = "event_time", assigntimestampsandwatermarks = "event_time",
}

-- The valid name nearest to `name`, or nil if none is near.
function M.nearest(name, valid)
  local best, best_d
  local known = elsewhere[name:lower()]
  for _, v in ipairs(valid) do
    if v == known then return v end
    local d = distance(name:lower(), v:lower())
    if not best_d or d < best_d then best, best_d = v, d end
  end
  if best and (best_d <= (#name < 5 and 1 or 2) or best_d <= #name // 3) and best_d < #name then return best end
end

-- `; did you mean "x"?`, or `otherwise` ("" if not given).
function M.hint(name, valid, otherwise)
  local best = type(name) == "string" and #name <= 64 and M.nearest(name, valid)
  return best and ('; did you mean "%s"?'):format(best) or otherwise or ""
end

-- Names of a table in byte order.
function M.sorted(t)
  local names = {}
  for k in pairs(t) do names[#names + 1] = k end
  table.sort(names)
  return names
end

return M
