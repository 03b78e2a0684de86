local test = require "streamlua.test"

test.job("tenant_metrics.lua", { faults = true })

local function event(t, value, ts, more)
  local e = { tenant_id = "acme", metric_name = "cpu", dimensions = { host = "h1", dc = "ber" }, value = value,
    user = 1, ts = ts }
  for k, v in pairs(more or {}) do e[k] = v end
  t:push("events", e)
end

test.case("sums per minute", function(t)
  event(t, 2, 0)
  event(t, 4, 59999, { user = 2 })
  event(t, 8, 60000)
  t:advance_watermark(59999)
  t:expect("out", { {
    tenant_id = "acme", metric_name = "cpu", dimensions = { dc = "ber", host = "h1" },
    window_start = 0, window_end = 60000,
    total = 6, n = 2, mean = 3.0, p99 = t.approx(4.0, 0.04), users = 2,
  } })
end)

test.case("dimensions are a key whatever their order, and each has its row", function(t)
  t:push("events", '{"ts":0,"tenant_id":"acme","metric_name":"cpu","value":1,"dimensions":{"a":"1","b":"2"}}')
  t:push("events", '{"ts":0,"tenant_id":"acme","metric_name":"cpu","value":1,"dimensions":{"b":"2","a":"1"}}')
  event(t, 1, 0)
  t:advance_watermark(59999)
  t:expect("out", {
    { dimensions = { a = "1", b = "2" }, n = 2 },
    { dimensions = { dc = "ber", host = "h1" }, n = 1 },
  }, { subset = true })
end)

test.case("five seconds late is in time, later is not", function(t)
  event(t, 1, 64999) -- the watermark is at 59999 - 1
  event(t, 2, 1000)
  event(t, 4, 66000)
  t:expect("out", { { total = 2 } }, { subset = true })
  event(t, 8, 2000)
  t:advance_watermark(119999)
  t:expect("out", { { window_start = 60000, total = 5 } }, { subset = true })
  assert(t:counter("aggregate-1", "late") == 1)
end)

test.case("events without a value do not count", function(t)
  t:push("events", { tenant_id = "acme", metric_name = "cpu", dimensions = {}, ts = 0 })
  t:advance_watermark(59999)
  t:expect_nothing "out"
end)
