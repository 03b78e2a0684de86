local s = require "streamlua"
local job = s.job "wordcount"
job:source("lines", s.file { path = s.param("input", "in.txt"), format = "text" })
   :flat_map(function(e, emit) for w in e.value:gmatch "%a+" do emit { word = w:lower() } end end)
   :key_by "word" :window(s.global()) :aggregate { n = s.count() } :sink("out", s.stdout())
return job
