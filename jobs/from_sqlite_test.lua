-- The rows as the source gives them; the database itself is tried elsewhere.
local test = require "streamlua.test"

test.job("from_sqlite.lua", { faults = true })

test.case("amounts and orders of a customer in a minute", function(t)
  t:push("orders", { id = 1, customer = "ann", amount = 250, ts = 0 })
  t:push("orders", { id = 2, customer = "ann", amount = 50, ts = 59999 })
  t:push("orders", { id = 3, customer = "bob", amount = 70, ts = 30000 })
  t:push("orders", { id = 4, customer = "ann", amount = 1, ts = 60000 })
  t:advance_watermark(59999)
  t:expect("totals", {
    { customer = "ann", window_start = 0, window_end = 60000, amount = 300, orders = 2 },
    { customer = "bob", window_start = 0, window_end = 60000, amount = 70, orders = 1 },
  })
  t:end_of_input()
  t:expect("totals", {
    { customer = "ann", window_start = 60000, window_end = 120000, amount = 1, orders = 1 },
  })
end)

test.case("an order ten seconds behind still counts", function(t)
  t:push("orders", { id = 1, customer = "ann", amount = 1, ts = 69000 })
  t:push("orders", { id = 2, customer = "ann", amount = 2, ts = 59500 })
  t:end_of_input()
  t:expect("totals", {
    { customer = "ann", window_start = 0, window_end = 60000, amount = 2, orders = 1 },
    { customer = "ann", window_start = 60000, window_end = 120000, amount = 1, orders = 1 },
  })
end)
