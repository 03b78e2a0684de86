local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
local items = job:source("orders", src):event_time { field = "ts" }
   :flat_map(function(e, emit)
      for _, it in ipairs(e.items or {}) do emit { sku = it.sku, region = e.region, qty = it.qty } end
    end)
local per_sku = items:key_by { "region", "sku" } :window(s.tumbling "1m") :aggregate({ qty = s.sum "qty" }, { name = "per-sku" })
per_sku:sink("out", s.stdout())
return job
