-- How often each word occurs in a text.
--
--   echo "To be or not to be" | streamlua run jobs/wordcount.lua
--   streamlua run jobs/wordcount.lua --set input=book.txt
local s = require "streamlua"

local input = s.param("input", "-") -- "-": standard input

local job = s.job "wordcount"

job:source("lines", input == "-" and s.stdin { format = "text" }
                    or s.file { path = input, format = "text" })
   :flat_map(function(e, emit)
     for word in e.value:gmatch "%a+" do emit { word = word:lower() } end
   end)
   :key_by "word"
   :window(s.global())
   :aggregate { n = s.count() }
   :sink("out", s.stdout())

return job
