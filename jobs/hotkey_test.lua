local test = require "streamlua.test"

test.job("hotkey.lua", { faults = true })

test.case("partitions meet in one row a key", function(t)
  for i = 0, 7 do
    t:push("gen", { k = i % 4 == 3 and "cold" or "hot", ts = i * 1000, v = i }, { partition = i % 4 })
  end
  t:expect_nothing "out"
  t:advance_watermark(59999)
  t:expect("out", {
    { k = "hot", window_start = 0, window_end = 60000, n = 6, max = 6 },
    { k = "cold", window_start = 0, window_end = 60000, n = 2, max = 7 },
  })
end)

test.case("a silent partition holds the minute until it is idle", function(t)
  t:push("gen", { k = "hot", ts = 0, v = 1 }, { partition = 0 })
  t:push("gen", { k = "hot", ts = 1000, v = 2 }, { partition = 1 })
  t:push("gen", { k = "hot", ts = 70000, v = 3 }, { partition = 0 })
  t:expect_nothing "out"
  t:idle("gen", 1)
  t:expect("out", { { k = "hot", window_start = 0, window_end = 60000, n = 2, max = 2 } })
end)
