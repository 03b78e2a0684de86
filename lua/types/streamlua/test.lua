---@meta streamlua.test
-- Types of test files for lua-language-server. Never loaded by the engine;
-- options are in types/streamlua.lua. tests/sys/test_verb_test.py holds this
-- file in step with lua/streamlua/testfile.lua.

---A test file: `local test = require "streamlua.test"`.
---@class streamlua.testlib
---@field any any # stands for any value; what is missing is none
local test = {}

---The job that the cases below it test; its path is relative to the test file.
---@param path string
---@param options? streamlua.test_job
function test.job(path, options) end

---A case: runs for several parallelisms, strategies and orders.
---@param name string
---@param f fun(t: streamlua.T)
---@param options? streamlua.test_case
function test.case(name, f, options) end

---Stands for a number not further than `eps` from `value`.
---@param value number
---@param eps? number # 1e-9
---@return any
function test.approx(value, eps) end

---Stands for a row that is a tombstone, with these fields.
---@param fields? table
---@return any
function test.tombstone(fields) end

---What a case gets. Whatever moves the job goes on until it has nothing to
---do; whatever looks at it first completes a round.
---@class streamlua.T
---@field any any
local T = {}

---A record comes in.
---@param source string # name of a source
---@param value table|string|nil # fields, encoded by the source's format; the bytes; a tombstone
---@param options? streamlua.test_push
function T:push(source, value, options) end

---No source has anything earlier than `ms` to come.
---@param ms integer
function T:advance_watermark(ms) end

---The virtual clock, which begins at 0, goes on; timers on the way fire.
---@param duration streamlua.duration
function T:advance_time(duration) end

---A partition no longer holds the watermark.
---@param source string
---@param partition? integer # 0
function T:idle(source, partition) end

---Bounded input has ended: windows fire, the job is finished.
function T:end_of_input() end

---What the sink got since the last look must be these rows.
---@param sink string
---@param rows table[]|string # rows, or the name of a file of JSON lines
---@param options? streamlua.test_expect
function T:expect(sink, rows, options) end

---The sink got nothing since the last look.
---@param sink string
function T:expect_nothing(sink) end

---The last step made the job fail, or a reload was refused.
---@param cause? "decode"|"timestamp"|"future"|"user_error"|"type"|"overflow"|"encode"|"null_key"|"bigint"|"refused"|"failed"
---@param pattern? string # Lua pattern that the message must hold
---@return { cause: string, text: string, where: string }
function T:expect_error(cause, pattern) end

---What the sink got since the last look.
---@param sink string
---@param options? streamlua.test_take
---@return table[]
function T:take(sink, options) end

---A counter of the summary: "records_in", "late", "dropped.null_key".
---@param step string
---@param name string
---@return integer
function T:counter(step, name) end

---State of a key: of functions by handle; of a window its row so far, or a
---list of windows. nil if there is none.
---@param step string
---@param key any # a value, or a table of the key's fields
---@param window_start? integer
---@return any
function T:state(step, key, window_start) end

---Timers of a key, by time.
---@param step string
---@param key any
---@return { clock: "event"|"processing", ts: integer }[]
function T:timers(step, key) end

---A round, the end of the process, another goes on.
---@param options? streamlua.test_restart
function T:restart(options) end

---The process ends at once; another goes on from the last round.
function T:crash() end

---Hot reload to another file.
---@param path string # relative to the test file
function T:reload(path) end

---Virtual time, ms.
---@return integer
function T:now() end

---The case fails.
---@param message string
function T:fail(message) end

---@param value number
---@param eps? number # 1e-9
---@return any
function T.approx(value, eps) end

---@param fields? table
---@return any
function T.tombstone(fields) end

return test
