local test = require "streamlua.test"

test.job("fraud.lua", { faults = true })

local function pay(t, account, amount, ts)
  t:push("payments", { account = account, amount = amount, ts = ts })
end

test.case("a small payment, then a large one within a minute", function(t)
  pay(t, 1, 0.5, 1000)
  pay(t, 2, 600, 2000)
  pay(t, 1, 600, 61000)
  t:expect("alerts", { { account = 1, amount = 600, probe = 1000, at = 61000 } })
  pay(t, 1, 600, 61500) -- the probe was used up
  t:expect_nothing "alerts"
end)

test.case("later than a minute it is none", function(t)
  pay(t, 1, 0.5, 1000)
  pay(t, 1, 600, 61001)
  t:expect_nothing "alerts"
end)

test.case("what came to nothing is forgotten", function(t)
  pay(t, 1, 0.5, 1000)
  t:expect_nothing "alerts"
  assert(t:state("fraud", 1).probe == 1000)
  assert(t:timers("fraud", 1)[1].ts == 61000)
  t:advance_watermark(61000)
  assert(t:state("fraud", 1) == nil and #t:timers("fraud", 1) == 0)
end)

test.case("the bounds are parameters", function(t)
  pay(t, 1, 0.99, 0)
  pay(t, 1, 500, 1000) -- not more than 500
  t:expect_nothing "alerts"
end)

test.job("fraud.lua", { set = { small = 10.0, large = 100.0 } })

test.case("other bounds", function(t)
  pay(t, 1, 9, 0)
  pay(t, 1, 101, 1000)
  t:expect("alerts", { { account = 1, amount = 101, probe = 0, at = 1000 } })
end)

test.case("an amount that is no number ends the job", function(t)
  t:push("payments", { account = 1, amount = "much", ts = 0 })
  t:expect_error("user_error", "compare")
end)
