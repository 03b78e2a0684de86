local test = require "streamlua.test"

test.job("first_seen.lua", { faults = true })

local DAY = 86400000

test.case("each kind of a user once", function(t)
  t:push("events", { user = "ann", kind = "login", ts = 0 })
  t:push("events", { user = "ann", kind = "login", ts = 1000 })
  t:push("events", { user = "ann", kind = "buy", ts = 2000 })
  t:push("events", { user = "bob", kind = "buy", ts = 3000 })
  t:expect("out", {
    { user = "ann", kind = "login", at = 0, known = 1 },
    { user = "ann", kind = "buy", at = 2000, known = 2 },
    { user = "bob", kind = "buy", at = 3000, known = 1 },
  })
  t:expect("users", { { user = "ann", at = 0 }, { user = "bob", at = 3000 } })
end)

test.case("what is not done for 90 days is forgotten", function(t)
  t:push("events", { user = "ann", kind = "login", ts = 0 })
  t:push("events", { user = "ann", kind = "buy", ts = 0 })
  t:push("events", { user = "ann", kind = "login", ts = 80 * DAY })
  t:advance_watermark(100 * DAY)
  t:take "out"
  t:take "users"
  t:push("events", { user = "ann", kind = "login", ts = 100 * DAY })
  t:push("events", { user = "ann", kind = "buy", ts = 100 * DAY })
  t:expect("out", { { user = "ann", kind = "buy", at = 100 * DAY, known = 2 } })
  t:expect_nothing "users"
end)
