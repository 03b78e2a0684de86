-- The option tables, as data. One word an option, in the order in which
-- messages list them:
--   name:type    optional    name:type!   required
--   name@stage   known, but of a later stage: refused by name
--   +schema      the options of another schema
-- Types are in types.lua; enum(a,b;c): c is a value of a later stage.
-- tests/lua/types_test.lua holds lua/types/streamlua.lua in step with this.
local text = {
  -- the job
  job = [[parallelism:int(1,32768) max_parallelism:int(1,32768)
    slots:int(1,65536) checkpoint:any mini_batch:table
    agg_phase_strategy:enum(AUTO,ONE_PHASE,TWO_PHASE) state:table memory:table
    buffer_timeout:duration on_error:enum(fail,skip,quarantine) quarantine:any
    restart:table bootstrap_servers:string properties:table lua:table]],
  checkpoint = [[interval:period timeout:period min_pause:duration
    tolerable_failures:int(0) retained:int(1)]],
  mini_batch = [[allow_latency:duration size:int(1) bytes:size]],
  state = [[backend:enum(lmdb,memory) ttl:never]],
  memory = [[total:size state:part buffers:part lua:part]],
  restart = [[initial_backoff:period max_backoff:period attempts:int(-1)]],
  lua = [[memory:size call_timeout:period load_timeout:period]],

  -- steps
  step = [[name:name parallelism:int(1,32768) slot_sharing_group:name
    chaining:enum(always,head,never) on_error:enum(fail,skip,quarantine)]],
  event_time = [[field:field func:func unit:enum(ms,s,us,ns,rfc3339)
    out_of_orderness:duration idle:never all_idle:hold max_future:duration
    +step]],
  key_by = [[on_null:enum(fail,skip,quarantine)]],
  window = [[lateness:duration late_output:name name:name window_fields:any
    early@4 trigger@4]],

  -- stateful steps
  process = [[on_record:func! on_timer:func state:table outputs:any +step]],
  process_both = [[on_left:func! on_right:func! on_timer:func state:table
    outputs:any +step]],
  process_window = [[on_window:func! outputs:any +step]],
  dedup = [[keep:enum(first;last) ttl:never! +step]],
  top_n = [[n:int(1,1000000)! by:any! order:enum(asc,desc) ties:bool +step]],
  state_handle = [[ttl:never ttl_clock:enum(event,processing)
    ttl_update:enum(write,read_and_write) migrate:func]],

  -- windows and aggregates
  tumbling = [[offset:offset clock:enum(event,processing) time_zone@4]],
  hopping = [[offset:offset clock:enum(event,processing) time_zone@4]],
  agg = [[where:func]],
  collect = [[limit:int(1,1000000) +agg]],
  sum = [[overflow:enum(error,float,string) as:enum(float) +agg]],
  percentile = [[error:num(0,1) +agg]],
  aggregator = [[init:func! add:func! merge:func result:func! retract:func
    args:any samples:any migrate:func]],

  -- formats
  source_format = [[format:enum(json,text,raw,csv;msgpack,avro,protobuf,debezium,cloudevents)
    on_error:enum(fail,skip,quarantine) validate:bool
    bigint:enum(error,string,float) fields:any header:bool
    delimiter:delimiter]],
  sink_format = [[format:enum(json,text,raw,csv;msgpack,avro,protobuf,debezium,cloudevents)
    on_error:enum(fail,skip,quarantine) fields:any header:bool
    delimiter:delimiter nan:enum(error,null,string)
    invalid_utf8:enum(error,replace)]],

  -- sources that make their records themselves: JSON, valid, in int64
  row_format = [[format:enum(json) on_error:enum(fail,skip,quarantine)
    validate:bool bigint:enum(error,string,float)]],

  -- connectors
  kafka_source = [[topic:any! start:any! stop:any bootstrap_servers:string
    group:string isolation:enum(read_committed,read_uncommitted)
    key_format:enum(text,json) tombstones:enum(pass,drop) discovery:period
    properties:table +source_format]],
  kafka_sink = [[topic:any! key:any partition:func headers:table
    delivery:enum(none,at_least_once,exactly_once)
    transactional_id_prefix:prefix create:table bootstrap_servers:string
    properties:table +sink_format]],
  create = [[partitions:int(1,1000000) replication:int(1,32767) config:table]],
  file_source = [[path:string! compression@4 +source_format]],
  file_sink = [[path:string! roll:table key:any envelope:bool +sink_format]],
  roll = [[size:size interval:period]],
  stdin_source = [[+source_format]],
  stdout_sink = [[key:any envelope:bool +sink_format]],
  blackhole_sink = [[+sink_format]],
  generator_source = [[count:int(0) rate:num(0) partitions:int(1,65536)
    seed:int fields:table! +row_format]],
  lua_source = [[open:func read:func! close:func partitions:int(1,65536)
    poll:period +row_format]],
  lua_sink = [[open:func write:func! flush:func close:func commit:func
    last_round:func on_error:enum(fail,skip,quarantine)]],

  -- streamlua.test
  test_job = [[set:table parallelism:int(1,32768) faults:bool]],
  test_case = [[faults:bool timeout:period]],
  test_push = [[key:any timestamp:int headers:table partition:int(0,65535)]],
  test_expect = [[ordered:bool subset:bool meta:bool]],
  test_take = [[meta:bool]],
  test_restart = [[parallelism:int(1,32768)]],

  -- s.read
  read = [[path:string! format:enum(json,text,raw,csv;msgpack,avro,protobuf)
    bigint:enum(error,string,float) fields:any header:bool
    delimiter:delimiter]],

  -- generator templates
  sequence = [[from:num step:num]],
  time = [[start:int step:span]],
}

local parsed = {}

local function parse(name)
  local def = { list = {}, by = {} }
  for word in text[name]:gmatch "%S+" do
    local base = word:match "^%+(.+)$"
    if base then
      for _, d in ipairs(parsed[base] and parsed[base].list or parse(base).list) do
        if not def.by[d.name] then
          def.list[#def.list + 1] = d
          def.by[d.name] = d
        end
      end
    else
      local key, stage = word:match "^([%w_]+)@(%d)$"
      local d = { name = key, later = stage }
      if not key then
        local must
        d.name, d.type, must = word:match "^([%w_]+):([%w_]+%b())(!?)$"
        if not d.name then d.name, d.type, must = word:match "^([%w_]+):([%w_]+)(!?)$" end
        d.required = must == "!"
      end
      def.list[#def.list + 1] = d
      def.by[d.name] = d
    end
  end
  parsed[name] = def
  return def
end

-- schema(name) -> { list = { {name, type, required, later}... }, by = {} }
return setmetatable({ names = text }, {
  __call = function(_, name) return parsed[name] or parse(name) end,
})
