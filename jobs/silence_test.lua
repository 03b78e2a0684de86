local test = require "streamlua.test"

test.job("silence.lua", { faults = true })

local MINUTE = 60000

test.case("silent after five minutes, and back", function(t)
  t:push("beats", { device = "d1", ts = 0 })
  t:push("beats", { device = "d1", ts = MINUTE })
  t:advance_watermark(6 * MINUTE - 1)
  t:expect_nothing "out"
  t:advance_watermark(6 * MINUTE)
  t:expect("out", { { device = "d1", silent_since = MINUTE } })
  t:push("beats", { device = "d1", ts = 10 * MINUTE })
  t:expect("out", { { device = "d1", back = 10 * MINUTE, silent_since = MINUTE } })
end)

test.case("devices are silent on their own", function(t)
  for i = 0, 10 do t:push("beats", { device = "loud", ts = i * MINUTE }) end
  t:push("beats", { device = "shy", ts = 9 * MINUTE })
  t:advance_watermark(14 * MINUTE)
  t:expect("out", { { device = "shy", silent_since = 9 * MINUTE } })
end)

test.case("a beat that ends a silence nobody was told of tells of both", function(t)
  t:push("beats", { device = "d1", ts = 0 })
  t:push("beats", { device = "d1", ts = 7 * MINUTE })
  t:expect("out", {
    { device = "d1", silent_since = 0 },
    { device = "d1", silent_since = 0, back = 7 * MINUTE },
  }, { ordered = true })
end)

test.case("an old beat changes nothing", function(t)
  t:push("beats", { device = "d1", ts = 5000 })
  t:push("beats", { device = "d1", ts = 1000 })
  t:advance_watermark(5 * MINUTE + 4999)
  t:expect_nothing "out"
end)
