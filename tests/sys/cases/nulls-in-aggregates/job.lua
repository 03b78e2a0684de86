local s = require "streamlua"
local job = s.job "t"
local src = s.stdin { format = "json" }
job:source("in", src):event_time { field = "ts" } :key_by "k" :window(s.tumbling "1m")
   :aggregate { a_min = s.min "v", b_max = s.max "v", c_avg = s.avg "v", d_sum = s.sum "v", e_n = s.count "v",
                f_all = s.count(), g_var = s.var_pop "v", h_first = s.first "v", i_p = s.percentile("v", 0.5), j_d = s.distinct "v" }
   :sink("out", s.stdout())
return job
