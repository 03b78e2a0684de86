-- The module of test files: `local test = require "streamlua.test"`. A job
-- has no use for it.
local _, host = ...
if not host.call then
  require("streamlua.check").fail(require("streamlua.check").where(), "require",
    "streamlua.test is for test files; run them by: streamlua test FILE_test.lua")
end
return require("streamlua.testfile").api
