-- The rows that the sink gets; PostgreSQL itself is tried elsewhere.
local test = require "streamlua.test"

test.job("to_postgres.lua", { faults = true })

test.case("payments of an account in a minute", function(t)
  t:push("payments", { account = "a", amount = 250, ts = 0 })
  t:push("payments", { account = "a", amount = -50, ts = 59999 })
  t:push("payments", { account = "b", amount = 70, ts = 30000 })
  t:advance_watermark(59999)
  t:expect("balances", {
    { account = "a", window_start = 0, window_end = 60000, amount = 200, payments = 2 },
    { account = "b", window_start = 0, window_end = 60000, amount = 70, payments = 1 },
  })
  t:end_of_input()
  t:expect_nothing "balances"
end)
