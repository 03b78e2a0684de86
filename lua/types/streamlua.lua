---@meta
-- Types of the job API for lua-language-server: completion and checks in an
-- editor. Never loaded by the engine. tests/lua/types_test.lua holds this
-- file in step with lua/streamlua/schema.lua and the functions there are.
-- [2], [3], [4]: known, but refused by name in this version.

---Milliseconds, or text of parts: "500ms", "30s", "5m", "2h", "1d", "1h30m".
---@alias streamlua.duration integer|string
---Bytes, or text: "64KiB", "32MiB", "1GiB", "10KB", "10MB", "1GB".
---@alias streamlua.size integer|string
---Path of a field: "a.b" is member b of a, "items.1" the first element.
---@alias streamlua.field string
---@alias streamlua.constant string|number|boolean|table
---A field, or a function of the record.
---@alias streamlua.what streamlua.field|fun(e: streamlua.Record): any
---Positional entries first (a field, or a pair { "name", what }), then
---name = what in byte order of the names.
---@alias streamlua.columns table<integer|string, streamlua.what|{ [1]: string, [2]: streamlua.what }>
---@alias streamlua.aggregates table<integer|string, streamlua.Aggregator|{ [1]: string, [2]: streamlua.Aggregator }>
---Message key: a field, an ordered table of fields, a function, false = none.
---@alias streamlua.key streamlua.field|streamlua.columns|(fun(e: streamlua.Record): any)|false
---@alias streamlua.position { timestamp: integer }|{ offsets: table<integer, integer|"earliest"|"latest"> }

-- Options ---------------------------------------------------------------

---@class streamlua.job
---@field parallelism? integer # default of keyed steps and sources; `--slots` or the CPU cores
---@field max_parallelism? integer # number of key groups, fixed once state exists
---@field slots? integer # worker threads; the larger of CPU cores and slots needed
---@field checkpoint? streamlua.checkpoint|boolean # `false` turns checkpoints off
---@field mini_batch? streamlua.mini_batch # bounds of the local phase
---@field agg_phase_strategy? "AUTO"|"ONE_PHASE"|"TWO_PHASE" # local and global phase, or one; AUTO where all aggregates merge
---@field state? streamlua.state
---@field memory? streamlua.memory # what the process may use; 70 % of the machine or its cgroup
---@field buffer_timeout? streamlua.duration # how long a record may wait in an exchange; "100ms"
---@field on_error? "fail"|"skip"|"quarantine" # what a record costs that fails; fail
---@field quarantine? streamlua.Connector # `s.kafka` or `s.file`: where records go that fail under on_error = "quarantine"
---@field restart? streamlua.restart
---@field bootstrap_servers? string # default of every `s.kafka`
---@field properties? table<string, string|number|boolean> # librdkafka properties, default of every `s.kafka`
---@field lua? streamlua.lua # guard rails of user functions

---@class streamlua.checkpoint
---@field interval? streamlua.duration # "10s"
---@field timeout? streamlua.duration # a round that takes longer has failed; "10m"
---@field min_pause? streamlua.duration # between the end of a round and the next; 0
---@field tolerable_failures? integer # failed rounds in a row before the job fails; 0
---@field retained? integer # 1

---@class streamlua.mini_batch
---@field allow_latency? streamlua.duration # "1s"
---@field size? integer # records, 50000
---@field bytes? streamlua.size # "32MiB"

---@class streamlua.state
---@field backend? "lmdb"|"memory" # lmdb: may be larger than memory; both are in checkpoints
---@field ttl? streamlua.duration|false # of keyed state outside windows that says nothing itself; false

---A part is a fraction of total, or a size.
---@class streamlua.memory
---@field total? streamlua.size # 70 % of the machine or its cgroup
---@field state? number|string # of keyed state in memory (lmdb); 0.6
---@field buffers? number|string # without effect in this version
---@field lua? number|string # without effect in this version

---@class streamlua.restart
---@field initial_backoff? streamlua.duration # "1s"
---@field max_backoff? streamlua.duration # "1m"
---@field attempts? integer # -1 is without end

---@class streamlua.lua
---@field memory? streamlua.size # cap of one Lua state, "256MiB"
---@field call_timeout? streamlua.duration # "1s"
---@field load_timeout? streamlua.duration # "5s"

---@class streamlua.step
---@field name? string # the identity of state; kind-n without
---@field parallelism? integer # subtasks
---@field slot_sharing_group? string # inherited; sources "default"
---@field chaining? "always"|"head"|"never" # "head" begins a chain, "never" stands alone
---@field on_error? "fail"|"skip"|"quarantine" # the job's, if not given

---@class streamlua.event_time : streamlua.step
---@field field? streamlua.field # path of the timestamp; without field and func the message's own
---@field func? fun(e: streamlua.Record): integer
---@field unit? "ms"|"s"|"us"|"ns"|"rfc3339" # of `field`; ms
---@field out_of_orderness? streamlua.duration # how far behind a record may come; 0s
---@field idle? streamlua.duration|false # when a partition no longer holds the watermark; "30s", false is never
---@field all_idle? streamlua.duration|"hold" # when all are idle: hold, or go on with the wall clock after this
---@field max_future? streamlua.duration # a timestamp further ahead of the wall clock is an error

---@class streamlua.key_by
---@field on_null? "fail"|"skip"|"quarantine" # a key part that is nil, null or NaN; skip

---@class streamlua.window
---@field lateness? streamlua.duration # late records within it give the window's row again; 0s
---@field late_output? string # name of the side output of late records
---@field name? string # name of the aggregate step
---@field window_fields? string[]|false # names of the window fields in rows, or none; { "window_start", "window_end" }
---@field early? any # [4] not in this version
---@field trigger? any # [4] not in this version

---@class streamlua.tumbling
---@field offset? streamlua.duration # moves the borders, may be negative
---@field clock? "event"|"processing" # processing: the wall clock, when the record reaches the step; event
---@field time_zone? any # [4] not in this version

---@class streamlua.hopping
---@field offset? streamlua.duration # moves the borders, may be negative
---@field clock? "event"|"processing" # processing: the wall clock, when the record reaches the step; event
---@field time_zone? any # [4] not in this version

---@class streamlua.agg
---@field where? fun(e: streamlua.Record): any # only records for which it gives true

---@class streamlua.sum : streamlua.agg
---@field overflow? "error"|"float"|"string" # of an integer sum beyond 64 bits; error
---@field as? "float" # always a double

---@class streamlua.collect : streamlua.agg
---@field limit? integer # values of a key and window; more are an error; 1000

---@class streamlua.percentile : streamlua.agg
---@field error? number # relative, 0.01

---Functions of a keyed stream, with state and timers. A call that fails
---leaves no emit, no change of state and no timer behind.
---@class streamlua.process : streamlua.step
---@field on_record fun(e: streamlua.Record, ctx: streamlua.Context)
---@field on_timer? fun(ts: integer, ctx: streamlua.TimerContext)
---@field state? table<string, streamlua.StateHandle> # `ctx.state.NAME`
---@field outputs? string[] # names for `ctx:emit_to`, read by `side_output`

---@class streamlua.process_both : streamlua.step
---@field on_left fun(e: streamlua.Record, ctx: streamlua.Context)
---@field on_right fun(e: streamlua.Record, ctx: streamlua.Context)
---@field on_timer? fun(ts: integer, ctx: streamlua.TimerContext)
---@field state? table<string, streamlua.StateHandle> # shared by both sides
---@field outputs? string[] # names for `ctx:emit_to`, read by `side_output`

---@class streamlua.process_window : streamlua.step
---@field on_window fun(records: streamlua.Record[], ctx: streamlua.WindowContext) # all records of a key and window, by event time
---@field outputs? string[] # names for `ctx:emit_to`, read by `side_output`

---@class streamlua.dedup : streamlua.step
---@field keep? "first"
---@field ttl streamlua.duration|false # how long a key is remembered; false for ever

---@class streamlua.top_n : streamlua.step
---@field n integer # rows of a key and window
---@field by streamlua.what # numbers or strings; records without are ignored
---@field order? "asc"|"desc" # desc
---@field ties? boolean # equal values share a rank, all of them come; false

---@class streamlua.state_handle
---@field ttl? streamlua.duration|false # of each value, map entry, list element; the job's state.ttl
---@field ttl_clock? "event"|"processing" # event where the stream has event time
---@field ttl_update? "write"|"read_and_write" # what renews it; write
---@field migrate? fun(old: any): any # the new form of a value, list element or map value, once each when the declaration changed

---Of `test.job`; see types/streamlua/test.lua.
---@class streamlua.test_job
---@field set? table<string, string|number|boolean> # parameters, as --set
---@field parallelism? integer # of all cases; 1, 2 and 4 in turn
---@field faults? boolean # cases run with a crash after each step, too; false

---@class streamlua.test_case
---@field faults? boolean # as of `test.job`, which it overrides
---@field timeout? streamlua.duration # how long a run of the case may take; "10s"

---@class streamlua.test_push
---@field key? any # message key: a string, or what is written as JSON
---@field timestamp? integer # of the message, ms
---@field headers? table # name = value, or a list of pairs { name, value }
---@field partition? integer # from 0; 0

---@class streamlua.test_expect
---@field ordered? boolean # in this order; false
---@field subset? boolean # a row may have more fields than are named; false
---@field meta? boolean # rows are { value =, key =, timestamp =, tombstone = }; false

---@class streamlua.test_take
---@field meta? boolean # as of `t:expect`

---@class streamlua.test_restart
---@field parallelism? integer # from here on; as it was

---@class streamlua.read
---@field path string # relative to the job file
---@field format? "json"|"text"|"raw"|"csv" # json
---@field bigint? "error"|"string"|"float" # integers beyond 64 bits; error
---@field fields? string[] # of csv: "name" or "name:int|float|string|bool"
---@field header? boolean # of csv: the first line names the fields
---@field delimiter? string # of csv

---@class streamlua.aggregator
---@field init fun(): any
---@field add fun(acc: any, ...): any
---@field merge? fun(a: any, b: any): any # allows the local phase
---@field result fun(acc: any): any
---@field retract? fun(acc: any, ...): any
---@field args? string[] # fields that `add` gets; without, the record
---@field samples? table[] # records to test the laws on
---@field migrate? fun(old: any): any # the new form of an accumulator, once each when `args` or its text changed

---@class streamlua.source_format
---@field format? "json"|"text"|"raw"|"csv" # json
---@field on_error? "fail"|"skip"|"quarantine"
---@field validate? boolean # check all of the JSON text
---@field bigint? "error"|"string"|"float" # integers beyond 64 bits; error
---@field fields? string[] # of csv: "name" or "name:int|float|string|bool"
---@field header? boolean # of csv: the first line names the fields
---@field delimiter? string # of csv

---@class streamlua.sink_format
---@field format? "json"|"text"|"raw"|"csv" # json
---@field on_error? "fail"|"skip"|"quarantine"
---@field fields? string[] # of csv
---@field header? boolean # of csv: write one
---@field delimiter? string # of csv
---@field nan? "error"|"null"|"string" # how NaN and infinities are written; error
---@field invalid_utf8? "error"|"replace" # error

---@class streamlua.kafka_source : streamlua.source_format
---@field topic string|string[] # a name, a list of names, or a pattern "^…"
---@field start "earliest"|"latest"|"committed"|"committed-or-earliest"|"committed-or-latest"|streamlua.position # where to read without restored state
---@field stop? "latest"|streamlua.position # makes the source bounded
---@field bootstrap_servers? string
---@field group? string # for lag tools only; the job's name
---@field isolation? "read_committed"|"read_uncommitted" # read_committed
---@field key_format? "text"|"json" # text
---@field tombstones? "pass"|"drop" # pass
---@field discovery? streamlua.duration # of new partitions; "5m"
---@field properties? table<string, string|number|boolean> # names of librdkafka

---@class streamlua.kafka_sink : streamlua.sink_format
---@field topic string|fun(e: streamlua.Record): string # a function chooses for each record
---@field key? streamlua.key # the record's message key, if not given
---@field partition? fun(e: streamlua.Record, n: integer): integer # 0 to n-1; murmur2 of the key as in Java, if not given
---@field headers? table<string, string|fun(e: streamlua.Record): string?> # added to the record's
---@field delivery? "none"|"at_least_once"|"exactly_once" # at_least_once
---@field transactional_id_prefix? string # of exactly_once: the ids are `<prefix>-0` and `<prefix>-1`, the marker topic `<prefix>-marker`; "streamlua-" and the job's name
---@field create? streamlua.create # make a topic that does not exist; without, it must exist
---@field bootstrap_servers? string
---@field properties? table<string, string|number|boolean> # names of librdkafka

---@class streamlua.create
---@field partitions? integer # the broker's default, if not given
---@field replication? integer # the broker's default, if not given
---@field config? table<string, string|number|boolean> # settings of the topic, such as ["cleanup.policy"] = "compact"

---@class streamlua.file_source : streamlua.source_format
---@field path string # file, directory or glob
---@field compression? any # [4] not in this version

---@class streamlua.file_sink : streamlua.sink_format
---@field path string # directory
---@field roll? streamlua.roll
---@field key? streamlua.key
---@field envelope? boolean # write key and timestamp around the value

---@class streamlua.roll
---@field size? streamlua.size # "128MiB"
---@field interval? streamlua.duration # "1m"

---@class streamlua.stdin_source : streamlua.source_format

---@class streamlua.stdout_sink : streamlua.sink_format
---@field key? streamlua.key
---@field envelope? boolean # write key and timestamp around the value

---@class streamlua.blackhole_sink : streamlua.sink_format

---@class streamlua.row_format
---@field format? "json" # such a source makes its records itself
---@field on_error? "fail"|"skip"|"quarantine"
---@field validate? boolean # they are valid
---@field bigint? "error"|"string"|"float" # their integers are in int64

---@class streamlua.generator_source : streamlua.row_format
---@field count? integer # records; unbounded, if not given
---@field rate? number # records per second; 0 is as fast as possible
---@field partitions? integer # 1
---@field seed? integer # 1
---@field fields table<string, streamlua.Template|streamlua.constant|fun(i: integer): any>

---@class streamlua.lua_source : streamlua.row_format
---@field open? fun(partition?: integer)
---@field read fun(position: any, max: integer, partition?: integer): table[]?, any # records and the position behind them; {} none now, nil the end
---@field close? fun()
---@field partitions? integer # 1
---@field poll? streamlua.duration # how soon to ask again after {}; "10ms"

---@class streamlua.lua_sink
---@field open? fun()
---@field write fun(batch: streamlua.Record[]) # records are valid during the call
---@field flush? fun() # called before each barrier
---@field close? fun()
---@field commit? fun(round: integer, token: string) # exactly once: make what was written final and store the round with it, in one transaction of the target; needs last_round
---@field last_round? fun(): integer?, string? # the round that the target holds, and its token if it keeps it; nil none
---@field on_error? "fail"|"skip"|"quarantine"

---@class streamlua.sequence
---@field from? number # 0
---@field step? number # 1

---@class streamlua.time
---@field start? integer # ms, 0
---@field step? streamlua.duration # "1ms"

-- Objects ---------------------------------------------------------------

---A record has only fields; what belongs to the message is asked of the
---module: s.key(e), s.timestamp(e), s.headers(e), s.origin(e).
---@class streamlua.Record
---@field [string] any

---What a function of `process` may do. State: by the names of `state`.
---@class streamlua.Context
---@field state table<string, streamlua.ValueState|streamlua.ListState|streamlua.MapState|streamlua.AddState>
---@field emit fun(self: streamlua.Context, r: streamlua.Record|table, ts?: integer)
---@field emit_to fun(self: streamlua.Context, output: string, r: streamlua.Record|table) # to one of `outputs`
---@field key fun(self: streamlua.Context): any # the value, or a table of the key's fields
---@field timestamp fun(self: streamlua.Context): integer? # of the record or timer, ms
---@field watermark fun(self: streamlua.Context): integer?
---@field now fun(self: streamlua.Context): integer # wall clock, ms
---@field register_event_timer fun(self: streamlua.Context, ts: integer)
---@field register_processing_timer fun(self: streamlua.Context, ts: integer)
---@field delete_event_timer fun(self: streamlua.Context, ts: integer)
---@field delete_processing_timer fun(self: streamlua.Context, ts: integer)

---@class streamlua.TimerContext : streamlua.Context
---@field clock fun(self: streamlua.TimerContext): "event"|"processing"

---@class streamlua.WindowContext
---@field emit fun(self: streamlua.WindowContext, r: streamlua.Record|table, ts?: integer)
---@field emit_to fun(self: streamlua.WindowContext, output: string, r: streamlua.Record|table)
---@field key fun(self: streamlua.WindowContext): any
---@field timestamp fun(self: streamlua.WindowContext): integer
---@field watermark fun(self: streamlua.WindowContext): integer?
---@field now fun(self: streamlua.WindowContext): integer
---@field window_start fun(self: streamlua.WindowContext): integer
---@field window_end fun(self: streamlua.WindowContext): integer

---@class streamlua.ValueState
---@field get fun(self: streamlua.ValueState): any
---@field set fun(self: streamlua.ValueState, v: any) # plain data, copied
---@field clear fun(self: streamlua.ValueState)

---@class streamlua.ListState
---@field get fun(self: streamlua.ListState): any[] # {} if it is empty
---@field add fun(self: streamlua.ListState, v: any)
---@field update fun(self: streamlua.ListState, t: any[]) # in place of what was there
---@field clear fun(self: streamlua.ListState)

---@class streamlua.MapState
---@field get fun(self: streamlua.MapState, k: any): any
---@field put fun(self: streamlua.MapState, k: any, v: any)
---@field has fun(self: streamlua.MapState, k: any): boolean
---@field remove fun(self: streamlua.MapState, k: any)
---@field pairs fun(self: streamlua.MapState): fun(): any, any # in canonical order of the keys
---@field clear fun(self: streamlua.MapState)

---@class streamlua.AddState
---@field add fun(self: streamlua.AddState, x: any)
---@field get fun(self: streamlua.AddState): any
---@field clear fun(self: streamlua.AddState)

---@class streamlua.StateHandle
---@class streamlua.Null
---@class streamlua.Connector
---@class streamlua.Aggregator
---@class streamlua.Window
---@class streamlua.Template

---@class streamlua.Job
local Job = {}
---Read records.
---@param name string
---@param spec streamlua.Connector
---@param options? streamlua.step
---@return streamlua.Stream
function Job:source(name, spec, options) end
---[4] not in this version
---@deprecated
function Job:table(...) end

---@class streamlua.Stream
local Stream = {}
---Take event time and watermarks from a field, a function or the message.
---@param options? streamlua.event_time
---@return streamlua.Stream
function Stream:event_time(options) end
---Keep the records for which f gives true. The record is read-only.
---@param f fun(e: streamlua.Record): any
---@param options? streamlua.step
---@return streamlua.Stream
function Stream:filter(f, options) end
---One record in, one out; nil is an error.
---@param f fun(e: streamlua.Record): streamlua.Record|table
---@param options? streamlua.step
---@return streamlua.Stream
function Stream:map(f, options) end
---One record in, as many out as emit is called.
---@param f fun(e: streamlua.Record, emit: fun(r: streamlua.Record|table))
---@param options? streamlua.step
---@return streamlua.Stream
function Stream:flat_map(f, options) end
---Project, rename and compute fields.
---@param columns streamlua.columns
---@param options? streamlua.step
---@return streamlua.Stream
function Stream:select(columns, options) end
---Spread records over all subtasks of the next step; loses their order.
---@return streamlua.Stream
function Stream:rebalance() end
---All records of these streams.
---@param ... streamlua.Stream
---@return streamlua.Stream
function Stream:union(...) end
---Bring records of one key to one subtask. {} is one key for all.
---@param what streamlua.field|streamlua.columns|fun(e: streamlua.Record): any
---@param options? streamlua.key_by
---@return streamlua.Keyed
function Stream:key_by(what, options) end
---Distribute records over streams by the name that f gives.
---@param f fun(e: streamlua.Record): string
---@param names string[]
---@param options? streamlua.step
---@return table<string, streamlua.Stream>
function Stream:split(f, names, options) end
---Records that the step gave out under this name (late records, outputs).
---@param name string
---@return streamlua.Stream
function Stream:side_output(name) end
---Write records. Gives the same stream again.
---@param name string
---@param spec streamlua.Connector
---@param options? streamlua.step
---@return streamlua.Stream
function Stream:sink(name, spec, options) end
---[4] not in this version
---@deprecated
function Stream:join(...) end
---[4] not in this version
---@deprecated
function Stream:lookup(...) end
---[4] not in this version
---@deprecated
function Stream:broadcast(...) end
---[4] not in this version
---@deprecated
function Stream:match(...) end

---@class streamlua.Keyed
local Keyed = {}
---Group the records of a key by time.
---@param spec streamlua.Window
---@param options? streamlua.window
---@return streamlua.Windowed
function Keyed:window(spec, options) end
---One row per key that replaces the one before (an updating stream).
---@param aggregates streamlua.aggregates
---@param options? streamlua.step
---@return streamlua.Stream
function Keyed:aggregate(aggregates, options) end
---Records of a key folded into one that replaces the one before (an updating
---stream). f is associative and commutative.
---@param f fun(a: streamlua.Record, b: streamlua.Record): streamlua.Record|table
---@param options? streamlua.step
---@return streamlua.Stream
function Keyed:reduce(f, options) end
---Functions with state and timers.
---@param options streamlua.process
---@return streamlua.Stream
function Keyed:process(options) end
---The first record of each key.
---@param options streamlua.dedup
---@return streamlua.Stream
function Keyed:dedup(options) end
---Two keyed streams that share state. The keys have as many parts.
---@param other streamlua.Keyed
---@return streamlua.Connected
function Keyed:connect(other) end
---[4] not in this version; put a window before it
---@deprecated
function Keyed:top_n(...) end
---[4] not in this version
---@deprecated
function Keyed:over(...) end
---[4] not in this version
---@deprecated
function Keyed:join(...) end

---@class streamlua.Connected
local Connected = {}
---Functions with state and timers, one for each side.
---@param options streamlua.process_both
---@return streamlua.Stream
function Connected:process(options) end

---@class streamlua.Windowed
local Windowed = {}
---One row per key and window: key fields, window_start, window_end, results.
---@param aggregates streamlua.aggregates
---@param options? streamlua.step
---@return streamlua.Stream
function Windowed:aggregate(aggregates, options) end
---Records of a key and window folded into one. f is associative and
---commutative.
---@param f fun(a: streamlua.Record, b: streamlua.Record): streamlua.Record|table
---@param options? streamlua.step
---@return streamlua.Stream
function Windowed:reduce(f, options) end
---A function of all records of a key and window. They are all kept.
---@param options streamlua.process_window
---@return streamlua.Stream
function Windowed:process(options) end
---The first n records of a key and window, with their rank.
---@param options streamlua.top_n
---@return streamlua.Stream
function Windowed:top_n(options) end

-- The module --------------------------------------------------------------

---@class streamlua
---@field args string[] # what stands behind -- on the command line
---@field null streamlua.Null # JSON null; true in Lua
local s = {}

---Begin the job; exactly once in a file, which ends with `return job`.
---@param name string
---@param options? streamlua.job
---@return streamlua.Job
function s.job(name, options) end
---Value of `--set name=value` or STREAMLUA_PARAM_NAME, in the type of the
---default; without default it is required, and text.
---@generic T : string|number|boolean
---@param name string
---@param default? T
---@return T
function s.param(name, default) end
---The records of a file as plain tables; while the job is loaded.
---@param options streamlua.read
---@return table[]
function s.read(options) end
---Write a line to the log.
---@param level "debug"|"info"|"warn"|"error"
---@param text any
function s.log(level, text) end

---@param options streamlua.kafka_source|streamlua.kafka_sink
---@return streamlua.Connector
function s.kafka(options) end
---@param options streamlua.file_source|streamlua.file_sink
---@return streamlua.Connector
function s.file(options) end
---@param options? streamlua.stdin_source
---@return streamlua.Connector
function s.stdin(options) end
---@param options? streamlua.stdout_sink
---@return streamlua.Connector
function s.stdout(options) end
---Encode, count and drop.
---@param options? streamlua.blackhole_sink
---@return streamlua.Connector
function s.blackhole(options) end
---@param options streamlua.generator_source
---@return streamlua.Connector
function s.generator(options) end
---A source in Lua.
---@param options streamlua.lua_source
---@return streamlua.Connector
function s.source(options) end
---A sink in Lua.
---@param options streamlua.lua_sink
---@return streamlua.Connector
function s.sink(options) end

---Windows [start, end) of one size.
---@param size streamlua.duration
---@param options? streamlua.tumbling
---@return streamlua.Window
function s.tumbling(size, options) end
---Windows of one size that begin every slide.
---@param size streamlua.duration
---@param slide streamlua.duration
---@param options? streamlua.hopping
---@return streamlua.Window
function s.hopping(size, slide, options) end
---One window; fires at the end of input.
---@return streamlua.Window
function s.global() end
---The window of the input rows: groups rows of a window step again.
---@return streamlua.Window
function s.same() end
---Every `slide` records, the last n; n of n without slide.
---@param n integer
---@param slide? integer
---@return streamlua.Window
function s.count_window(n, slide) end

---One value of a key.
---@param options? streamlua.state_handle
---@return streamlua.StateHandle
function s.value_state(options) end
---A list of a key.
---@param options? streamlua.state_handle
---@return streamlua.StateHandle
function s.list_state(options) end
---A map of a key, kept by entry.
---@param options? streamlua.state_handle
---@return streamlua.StateHandle
function s.map_state(options) end
---What was added to a key, folded by f.
---@param f fun(a: any, b: any): any
---@param options? streamlua.state_handle
---@return streamlua.StateHandle
function s.reducing_state(f, options) end
---What was added to a key, as an aggregator has it.
---@param aggregator streamlua.Aggregator
---@param options? streamlua.state_handle
---@return streamlua.StateHandle
function s.aggregating_state(aggregator, options) end

---Records, or records where x is not null.
---@param x? streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.count(x, options) end
---Exact; int if all values are, else double.
---@param x streamlua.what
---@param options? streamlua.sum
---@return streamlua.Aggregator
function s.sum(x, options) end
---Exact sum divided by the count.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.avg(x, options) end
---Numbers or strings, not mixed.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.min(x, options) end
---Numbers or strings, not mixed.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.max(x, options) end
---By event time, then origin.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.first(x, options) end
---By event time, then origin.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.last(x, options) end
---Variance of the population.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.var_pop(x, options) end
---Variance of the sample.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.var_samp(x, options) end
---Standard deviation of the population.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.stddev_pop(x, options) end
---Standard deviation of the sample.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.stddev_samp(x, options) end
---The values, by event time, then origin.
---@param x streamlua.what
---@param options? streamlua.collect
---@return streamlua.Aggregator
function s.collect(x, options) end
---Number of different values, approximate beyond 256.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.distinct(x, options) end
---Number of different values, exact.
---@param x streamlua.what
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.count_distinct(x, options) end
---Value of field `what` where x is least; a map for a list of fields.
---@param x streamlua.what
---@param what streamlua.field|streamlua.field[]
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.min_by(x, what, options) end
---Value of field `what` where x is greatest; a map for a list of fields.
---@param x streamlua.what
---@param what streamlua.field|streamlua.field[]
---@param options? streamlua.agg
---@return streamlua.Aggregator
function s.max_by(x, what, options) end
---Nearest rank, q in (0, 1]; within `error` beyond 64 values.
---@param x streamlua.what
---@param q number|number[]
---@param options? streamlua.percentile
---@return streamlua.Aggregator
function s.percentile(x, q, options) end
---An aggregator of your own.
---@param options streamlua.aggregator
---@return streamlua.Aggregator
function s.aggregator(options) end

s.gen = {}
---from + i * step
---@param options? streamlua.sequence
---@return streamlua.Template
function s.gen.sequence(options) end
---start + i * step, in ms
---@param options? streamlua.time
---@return streamlua.Template
function s.gen.time(options) end
---The values in turn.
---@param values streamlua.constant[]
---@return streamlua.Template
function s.gen.cycle(values) end
---One of the values at random.
---@param values streamlua.constant[]
---@return streamlua.Template
function s.gen.choice(values) end
---@param a integer
---@param b integer
---@return streamlua.Template
function s.gen.int(a, b) end
---@param a number
---@param b number
---@return streamlua.Template
function s.gen.float(a, b) end
---1 to n, k as often as k^-exponent says.
---@param n integer
---@param exponent number
---@return streamlua.Template
function s.gen.zipf(n, exponent) end
---Hexadecimal digits.
---@param len integer
---@return streamlua.Template
function s.gen.hex(len) end

---True if the field is present, null included.
---@param e streamlua.Record
---@param field streamlua.field
---@return boolean
function s.has(e, field) end
---Record or view as a plain table, nulls as s.null.
---@param v any
---@return any
function s.table(v) end
---An owned record that may outlive the call.
---@param e streamlua.Record
---@return streamlua.Record
function s.copy(e) end
---New record with this order of fields; nil values are left out.
---@param fields { [1]: string, [2]: any }[]
---@return streamlua.Record
function s.row(fields) end
---Message key.
---@param e streamlua.Record
---@return any
function s.key(e) end
---Event time in ms.
---@param e streamlua.Record
---@return integer
function s.timestamp(e) end
---List of { name, value } pairs.
---@param e streamlua.Record
---@return { [1]: string, [2]: string? }[]
function s.headers(e) end
---@param e streamlua.Record
---@return string topic
---@return integer partition
---@return integer offset
function s.origin(e) end
---@param e streamlua.Record
---@param key any
function s.set_key(e, key) end
---@param e streamlua.Record
---@param ms integer
function s.set_timestamp(e, ms) end
---@param e streamlua.Record
---@param name string
---@param value string? # nil removes
function s.set_header(e, name, value) end
---True if the payload is absent (a null value in Kafka).
---@param e streamlua.Record
---@return boolean
function s.is_tombstone(e) end
---Make a tombstone; the fields serve the sink's key.
---@param fields? table
---@return streamlua.Record
function s.tombstone(fields) end
---Force a table to be a list.
---@param t table
---@return table
function s.list(t) end
---Force a table to be a map.
---@param t table
---@return table
function s.map(t) end
---@param format "json"
---@param v any
---@return string
function s.encode(format, v) end
---@param format "json"
---@param text string
---@return any
function s.decode(format, text) end
---RFC 3339 to ms.
---@param text string
---@return integer
function s.parse_time(text) end
---Ms to RFC 3339, UTC.
---@param ms integer
---@return string
function s.format_time(ms) end
---Equal for equal keys, in every run.
---@param v any
---@return integer
function s.hash(v) end
---An error of a Lua sink after which the write may be tried again.
---@param message string
---@return any
function s.retriable(message) end

---[4] not in this version
---@deprecated
function s.cumulating(...) end
---[4] not in this version
---@deprecated
function s.lookup(...) end
---[4] not in this version
---@deprecated
function s.on_count(...) end
---[4] not in this version
---@deprecated
function s.session(...) end
---[4] not in this version
---@deprecated
function s.top_k(...) end

return s
