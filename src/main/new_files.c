#include "main/new_files.h"

#include <stddef.h>

static const char metrics_job[] =
    "-- Metrics of each host and minute.\n"
    "--\n"
    "-- As it stands it needs nothing: generated events in, lines on stdout.\n"
    "-- From a topic: --set input=kafka --bootstrap-servers HOST:9092\n"
    "local s = require \"streamlua\"\n"
    "\n"
    "local input = s.param(\"input\", \"generator\") -- or \"kafka\"\n"
    "local topic = s.param(\"topic\", \"events\")\n"
    "local servers = s.param(\"bootstrap\", \"localhost:9092\")\n"
    "\n"
    "local job = s.job(\"@NAME@\", { bootstrap_servers = servers })\n"
    "\n"
    "-- {\"host\":\"a\",\"ts\":1767225600000,\"value\":42}\n"
    "local sources = {\n"
    "  generator = function()\n"
    "    return s.generator {\n"
    "      count = 10000,\n"
    "      fields = {\n"
    "        host  = s.gen.cycle { \"a\", \"b\", \"c\" },\n"
    "        value = s.gen.int(1, 100),\n"
    "        ts    = s.gen.time { start = 1767225600000, step = \"20ms\" },\n"
    "      },\n"
    "    }\n"
    "  end,\n"
    "  kafka = function()\n"
    "    return s.kafka { topic = topic, start = \"earliest\" }\n"
    "  end,\n"
    "}\n"
    "local source = assert(sources[input], \"input: generator or kafka\")\n"
    "\n"
    "job:source(\"events\", source())\n"
    "   :event_time { field = \"ts\", out_of_orderness = \"5s\", "
    "idle = \"30s\" }\n"
    "   :filter(function(e) return e.value ~= nil end)\n"
    "   :key_by \"host\"\n"
    "   :window(s.tumbling \"1m\")\n"
    "   :aggregate({\n"
    "     n    = s.count(),\n"
    "     mean = s.avg \"value\",\n"
    "     p99  = s.percentile(\"value\", 0.99),\n"
    "   }, { name = \"per-host\" })\n"
    "   :sink(\"out\", s.stdout())\n"
    "\n"
    "return job\n";

static const char metrics_test[] =
    "local test = require \"streamlua.test\"\n"
    "\n"
    "test.job \"job.lua\"\n"
    "\n"
    "test.case(\"a row for each host and minute\", function(t)\n"
    "  t:push(\"events\", { host = \"a\", value = 1, ts = 0 })\n"
    "  t:push(\"events\", { host = \"a\", value = 3, ts = 59999 })\n"
    "  t:push(\"events\", { host = \"b\", value = 5, ts = 60000 })\n"
    "  t:advance_watermark(59999)\n"
    "  t:expect(\"out\", {\n"
    "    { host = \"a\", window_start = 0, window_end = 60000,\n"
    "      mean = 2.0, n = 2, p99 = 3.0 },\n"
    "  })\n"
    "end)\n"
    "\n"
    "test.case(\"events without a value do not count\", function(t)\n"
    "  t:push(\"events\", { host = \"a\", ts = 0 })\n"
    "  t:advance_watermark(59999)\n"
    "  t:expect_nothing \"out\"\n"
    "end)\n";

static const char wordcount_job[] =
    "-- How often each word occurs in a text.\n"
    "--\n"
    "-- Reads standard input, or a file: --set input=book.txt\n"
    "local s = require \"streamlua\"\n"
    "\n"
    "local input = s.param(\"input\", \"-\")\n"
    "\n"
    "local job = s.job \"@NAME@\"\n"
    "\n"
    "job:source(\"lines\", input == \"-\" and s.stdin { format = \"text\" }\n"
    "                    or s.file { path = input, format = \"text\" })\n"
    "   :flat_map(function(e, emit)\n"
    "     for word in e.value:gmatch \"%a+\" do emit { word = word:lower() } "
    "end\n"
    "   end)\n"
    "   :key_by \"word\"\n"
    "   :window(s.global())\n"
    "   :aggregate({ n = s.count() }, { name = \"counts\" })\n"
    "   :sink(\"out\", s.stdout())\n"
    "\n"
    "return job\n";

static const char wordcount_test[] =
    "local test = require \"streamlua.test\"\n"
    "\n"
    "test.job \"job.lua\"\n"
    "\n"
    "test.case(\"words are counted whatever their case\", function(t)\n"
    "  t:push(\"lines\", \"To be or not to be\")\n"
    "  t:push(\"lines\", \"Be\")\n"
    "  t:end_of_input()\n"
    "  t:expect(\"out\", {\n"
    "    { word = \"be\", n = 3 }, { word = \"not\", n = 1 },\n"
    "    { word = \"or\", n = 1 }, { word = \"to\", n = 2 },\n"
    "  })\n"
    "end)\n";

const struct new_template new_templates[] = {
    {"metrics", metrics_job, metrics_test, "Metrics of each host and minute.",
     "streamlua run @DIR@/job.lua"},
    {"wordcount", wordcount_job, wordcount_test,
     "How often each word occurs in a text.",
     "echo 'to be or not to be' | streamlua run @DIR@/job.lua"},
    {"fraud", NULL, NULL, NULL, NULL}, /* needs process */
};

const unsigned new_template_count =
    sizeof new_templates / sizeof new_templates[0];

const char new_readme[] =
    "# @NAME@\n"
    "\n"
    "@WHAT@\n"
    "\n"
    "| file | is |\n"
    "|---|---|\n"
    "| `job.lua` | the job |\n"
    "| `job_test.lua` | its tests, without a broker and without waiting; this "
    "version cannot run them yet |\n"
    "| `.luarc.json` | settings of lua-language-server: types and help of "
    "`streamlua` |\n"
    "| `.luacheckrc` | settings of luacheck |\n"
    "\n"
    "```sh\n"
    "streamlua check job.lua\n"
    "streamlua explain job.lua\n"
    "@RUN@\n"
    "```\n";

/* The functions of a job may take what they do not use. */
const char new_luacheckrc[] = "std = \"lua54\"\n"
                              "unused_args = false\n";
