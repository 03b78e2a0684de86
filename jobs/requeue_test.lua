local test = require "streamlua.test"

test.job("requeue.lua", { set = { from = "bad", to = "payments" }, faults = true })

-- A record as the quarantine keeps it.
local function bad(t, value, topic, cause)
  t:push("bad", value, { key = "k", timestamp = 99, headers = {
    ["__streams.errors.topic"] = topic,
    ["__streamlua.errors.cause"] = cause,
    ["__streamlua.errors.timestamp"] = "7",
    mine = "kept",
  } })
end

test.case("what came from the topic goes there as it was", function(t)
  bad(t, "{broken", "payments", "decode")
  bad(t, "other", "orders", "decode")
  t:expect("again", { { value = { value = "{broken" }, key = "k", timestamp = 7 } }, { meta = true })
end)

test.job("requeue.lua", { set = { from = "bad", to = "payments", cause = "user_error" } })

test.case("only the causes that are asked for", function(t)
  bad(t, "a", "payments", "decode")
  bad(t, "b", "payments", "user_error")
  t:expect("again", { { value = "b" } })
end)
