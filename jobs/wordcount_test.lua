local test = require "streamlua.test"

test.job("wordcount.lua", { faults = true })

test.case("words are counted whatever their case", function(t)
  t:push("lines", "To be, or not to be")
  t:push("lines", "Be")
  t:expect_nothing "out" -- the input may go on
  t:end_of_input()
  t:expect("out", {
    { word = "be", n = 3 },
    { word = "not", n = 1 },
    { word = "or", n = 1 },
    { word = "to", n = 2 },
  })
end)

test.case("a line without words gives none", function(t)
  t:push("lines", "")
  t:push("lines", "1 + 1 = 2")
  t:end_of_input()
  t:expect_nothing "out"
end)
