-- The rows of an SQLite table, each read once, whatever is killed meanwhile.
--
--   streamlua run jobs/from_sqlite.lua --unsafe --set file=shop.db --bounded
--
-- Without --bounded it goes on with rows that are inserted later. The table:
--
--   create table orders (id integer primary key autoincrement,
--                        customer text, amount integer, ts integer)
--
-- It needs LuaSQL for Lua 5.4 (Debian: lua-sql-sqlite3), which is a C module:
-- hence --unsafe. The position is the last id that was read: ids grow in the
-- order of the commits, since SQLite has one writer at a time.
local s = require "streamlua"

local file = s.param("file", "shop.db")

local job = s.job("orders", { checkpoint = { interval = "1s" } })

local environment, connection

local orders = s.source {
  open = function()
    environment = require "luasql.sqlite3".sqlite3()
    connection = assert(environment:connect(file))
  end,

  -- A file that is being written to is asked again, from the last checkpoint.
  read = function(position, max)
    local last = position or 0
    local cursor, message = connection:execute(
      ("select id, customer, amount, ts from orders where id > %d order by id limit %d"):format(last, max))
    if not cursor then error(s.retriable(message)) end
    local rows = {}
    local id, customer, amount, ts = cursor:fetch()
    while id do
      last = math.tointeger(tonumber(id))
      rows[#rows + 1] = { id = last, customer = customer, amount = math.tointeger(tonumber(amount)),
        ts = math.tointeger(tonumber(ts)) }
      id, customer, amount, ts = cursor:fetch()
    end
    cursor:close()
    return rows, last
  end,

  close = function()
    if connection then connection:close() end
    if environment then environment:close() end
  end,
}

job:source("orders", orders)
   :event_time { field = "ts", out_of_orderness = "10s" }
   :key_by "customer"
   :window(s.tumbling "1m")
   :aggregate { amount = s.sum "amount", orders = s.count() }
   :sink("totals", s.file { path = s.param("out", "totals") })

return job
