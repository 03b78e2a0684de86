-- Functions with state, dedup and top-N, Kafka to Kafka.
--
-- how: pass   the records as they are (the baseline)
--      map    one Lua call a record
--      call   behind key_by, a process function that only emits the record
--      value  and counts in a value state; emits one of `each` records
--      timer  value, and an event timer for each key and second, which fires
--      ttl    value with a time to live
--      dedup  the first record of each key; with ttl=DURATION by event time
--      first  the same as a function with one value state
--      top_n  the n highest of each key and window
--      q5     the keys with the most records of the last two seconds
local s = require "streamlua"

local how = s.param("how", "value")
local each = s.param("each", 1)
local ttl = s.param("ttl", "")
local delivery = s.param("delivery", "at_least_once")
local prefix = s.param("prefix", "bench")

local job = s.job("bench-stateful", {
  parallelism = s.param("p", 1),
  checkpoint = { interval = s.param("interval", "10s") },
  state = { backend = s.param("backend", "lmdb") },
})

local events = job:source("events", s.kafka {
  topic = s.param("topic", "bench"), start = "earliest",
}):event_time { field = "ts" }

local function of_each_key()
  local by = s.param("by", "")
  return events:key_by(by ~= "" and by or { "tenant_id", "metric_name" })
end

local function count(e, ctx)
  local state = ctx.state.n
  local n = (state:get() or 0) + 1
  state:set(n)
  if n % each == 0 then ctx:emit(e) end
end

local rows
if how == "pass" then
  rows = events
elseif how == "map" then
  rows = events:map(function(e) return e end)
elseif how == "call" then
  rows = of_each_key():process {
    name = "step",
    on_record = function(e, ctx) ctx:emit(e) end,
  }
elseif how == "value" or how == "ttl" then
  rows = of_each_key():process {
    name = "step",
    state = { n = s.value_state(how == "ttl" and { ttl = "1m" } or nil) },
    on_record = count,
  }
elseif how == "timer" then
  rows = of_each_key():process {
    name = "step", state = { n = s.value_state() },
    on_record = function(e, ctx)
      count(e, ctx)
      ctx:register_event_timer((ctx:timestamp() // 1000 + 1) * 1000)
    end,
    on_timer = function() end,
  }
elseif how == "dedup" then
  rows = of_each_key():dedup { name = "step", ttl = ttl ~= "" and ttl or false }
elseif how == "first" then
  rows = of_each_key():process {
    name = "step", state = { seen = s.value_state() },
    on_record = function(e, ctx)
      if ctx.state.seen:get() then return end
      ctx.state.seen:set(true)
      ctx:emit(e)
    end,
  }
elseif how == "top_n" then
  rows = of_each_key():window(s.tumbling(s.param("window", "1s")))
    :top_n { name = "step", n = s.param("n", 10), by = "value" }
elseif how == "q5" then
  rows = of_each_key():window(s.hopping("2s", "1s"))
    :aggregate({ n = s.count() }, { name = "step" })
    :key_by {}:window(s.same())
    :top_n { name = "hot", n = 1, by = "n", ties = true }
end
rows:sink("out", s.kafka {
  topic = s.param("out", "bench-out"), key = false, delivery = delivery,
  transactional_id_prefix = delivery == "exactly_once" and prefix or nil,
  properties = { ["compression.codec"] = "lz4" },
})

return job
