-- Balances in PostgreSQL, exactly once: each payment is added to its account
-- once, whatever is killed meanwhile.
--
--   streamlua run jobs/to_postgres.lua --unsafe --set input=payments.jsonl \
--     --set database="host=/run/postgresql dbname=shop"
--
-- What comes in, a line each: {"account":"a","amount":250,"ts":1000}
--
-- It needs LuaSQL for Lua 5.4 (Debian: lua-sql-postgres), which is a C module:
-- hence --unsafe. The rows of a checkpoint and its number are one transaction
-- of the database. After a crash the number says whether it was committed.
local s = require "streamlua"

local input    = s.param("input", "payments.jsonl")
local database = s.param("database", "")     -- as libpq reads it
local name     = "ledger"

local job = s.job(name, {
  checkpoint = { interval = "1s" },
  lua = { call_timeout = "30s" }, -- write() waits for the database
})

local environment, connection
local begun = false -- a transaction is open
local seen          -- the round that the database holds

-- What may pass by itself is tried again, from the last checkpoint.
local function execute(sql)
  local result, message = connection:execute(sql)
  if result then return result end
  if message:find "connection" or message:find "timeout" or message:find "shutting down" then
    error(s.retriable(message))
  end
  error(message)
end

local function begin()
  if not begun then execute "begin" end
  begun = true
end

local balances = s.sink {
  -- The lock is this session's: what an earlier process had under way is over
  -- when it is granted, and cannot become visible behind our look.
  open = function()
    local message
    environment = require "luasql.postgres".postgres()
    connection, message = environment:connect(database)
    if not connection then error(s.retriable(message)) end
    execute "set client_min_messages = warning"
    execute "set lock_timeout = '20s'"
    execute(("select pg_advisory_lock(hashtext('%s'))"):format(name)):close()
    execute [[create table if not exists streamlua_round (
      job text primary key, round bigint not null, token text not null)]]
    execute [[create table if not exists balance (
      account text primary key, amount bigint not null, payments bigint not null)]]
  end,

  write = function(batch)
    begin()
    local list = {}
    for i, e in ipairs(batch) do
      list[i] = ([[insert into balance values ('%s', %d, %d)
        on conflict (account) do update set amount = balance.amount + excluded.amount,
          payments = balance.payments + excluded.payments]])
        :format(connection:escape(e.account), e.amount, e.payments)
    end
    execute(table.concat(list, ";\n"))
  end,

  last_round = function()
    local cursor = execute(("select round, token from streamlua_round where job = '%s'"):format(name))
    local round, token = cursor:fetch()
    cursor:close()
    seen = math.tointeger(tonumber(round))
    return seen, token
  end,

  -- Only where the number is still the one that this session saw: no second
  -- process can have come between.
  commit = function(round, token)
    begin()
    local changed
    if seen then
      changed = execute(("update streamlua_round set round = %d, token = '%s' where job = '%s' and round = %d")
        :format(round, connection:escape(token), name, seen))
    else
      changed = execute(("insert into streamlua_round values ('%s', %d, '%s')")
        :format(name, round, connection:escape(token)))
    end
    if changed ~= 1 then error "another process writes to these tables" end
    execute "commit"
    begun, seen = false, round
  end,

  -- What is not committed is rolled back with the session.
  close = function()
    if connection then connection:close() end
    if environment then environment:close() end
  end,
}

job:source("payments", s.file { path = input })
   :event_time { field = "ts", out_of_orderness = "10s" }
   :key_by "account"
   :window(s.tumbling "1m")
   :aggregate { amount = s.sum "amount", payments = s.count() }
   :sink("balances", balances)

return job
