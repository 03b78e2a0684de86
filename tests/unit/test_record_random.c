/*
 * Records under random edits and damaged bytes. A plain table gets the same
 * edits as the record; both must say the same in the end. The seed is
 * printed; SEED in the environment repeats a run.
 */
#include "script_job.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/hash.h"

enum { DOCS = 400, DAMAGES = 20 };

static uint64_t seed;

static uint32_t
draw(uint32_t n)
{
    seed = hash_splitmix(seed);
    return (uint32_t)(seed >> 33) % n;
}

static void
put_blank(struct buf *b)
{
    static const char *const blanks[] = {"", "", "", " ", "\t", " \r\n"};

    buf_adds(b, blanks[draw(6)]);
}

static void put_value(struct buf *b, int depth);

static void
put_members(struct buf *b, int depth, bool map)
{
    static const char *const names[] = {
        "\"a\"", "\"b\"", "\"c\"", "\"\\u0064\"", "\"e e\"", "\"\\\"\"",
    };
    uint32_t i, n = draw(draw(8) == 0 ? 40 : 5);

    buf_addc(b, map ? '{' : '[');
    for (i = 0; i < n; i++) {
        if (i > 0)
            buf_addc(b, ',');
        put_blank(b);
        if (map) {
            if (n > 6)
                buf_addf(b, "\"n%u\"", (unsigned)draw(30));
            else
                buf_adds(b, names[draw(6)]);
            put_blank(b);
            buf_addc(b, ':');
            put_blank(b);
        }
        put_value(b, depth + 1);
        put_blank(b);
    }
    buf_addc(b, map ? '}' : ']');
}

static void
put_value(struct buf *b, int depth)
{
    static const char *const scalars[] = {
        "0",
        "-7",
        "1.50",
        "1e3",
        "9223372036854775807",
        "true",
        "false",
        "null",
        "\"\"",
        "\"x\\ny\"",
        "\"q\"",
        "\"\\u00e9\"",
        "-0.0",
        "\"caf\xc3\xa9\"",
    };
    uint32_t k = draw(depth > 4 ? 4 : 7);

    if (k >= 4)
        put_members(b, depth, k != 4);
    else
        buf_adds(b, scalars[draw(14)]);
}

static const char edits[] =
    "function(e)\n"
    "  math.randomseed(#tostring(e))\n"
    "  local t, r = s.table(e), math.random\n"
    "  local function names(v)\n"
    "    local list = {}\n"
    "    for k in pairs(v) do list[#list + 1] = k end\n"
    "    return list\n"
    "  end\n"
    "  local function value()\n"
    "    return ({ 1, 2.5, 'z', true, s.null, { q = { 1 } }, s.list {},\n"
    "              { 1, { x = 2 } } })[r(8)]\n"
    "  end\n"
    "  for _ = 1, r(0, 12) do\n"
    "    local v, p = e, t\n"
    "    while true do\n"
    "      local down = {}\n"
    "      for k, x in pairs(p) do\n"
    "        if type(x) == 'table' and type(k) == 'number' or\n"
    "           type(x) == 'table' and not k:find '[.\\\\]' then\n"
    "          down[#down + 1] = k\n"
    "        end\n"
    "      end\n"
    "      if #down == 0 or r(3) == 1 then break end\n"
    "      local k = down[r(#down)]\n"
    "      v, p = v[k], p[k]\n"
    "    end\n"
    "    local x, copy = value()\n"
    "    copy = s.decode('json', s.encode('json', x))\n"
    "    if v ~= e and s.encode('json', v):sub(1, 1) == '[' then\n"
    "      local n = #p\n"
    "      assert(#v == n)\n"
    "      local what = r(4)\n"
    "      if what == 1 then table.insert(v, x) table.insert(p, copy)\n"
    "      elseif what == 2 then table.remove(v) table.remove(p)\n"
    "      elseif what == 3 and n > 0 then\n"
    "        local i = r(n) v[i] = x p[i] = copy\n"
    "      elseif n > 0 then\n"
    "        local i = r(n) table.remove(v, i) table.remove(p, i)\n"
    "      end\n"
    "    else\n"
    "      local list = names(p)\n"
    "      local k = #list > 0 and r(2) == 1 and list[r(#list)] or "
    "'new' .. r(3)\n"
    "      if r(4) == 1 then x, copy = nil, nil end\n"
    "      v[k] = x p[k] = copy\n"
    "    end\n"
    "  end\n"
    "  local a, b = s.encode('json', s.table(e)), s.encode('json', t)\n"
    "  if a ~= b then error(a .. '\\n' .. b) end\n"
    "  return e\n"
    "end";

static void
edits_do_what_they_do_to_tables(void **state)
{
    struct job_of j, again;
    struct buf b;
    const char *got;
    char *copy;
    int i;

    (void)state;
    job_load(&j, "map", edits);
    job_load(&again, "map", "function(e) return s.table(e) end");
    buf_init(&b);
    for (i = 0; i < DOCS; i++) {
        buf_clear(&b);
        put_members(&b, 1, true);
        got = job_map(&j, buf_cstr(&b));
        if (got == NULL)
            fail_msg("%s\n%s", buf_cstr(&b), j.e.msg);
        copy = strdup(got);
        assert_non_null(copy);
        if (job_map(&again, copy) == NULL)
            fail_msg("%s\n%s", copy, again.e.msg);
        free(copy);
    }
    buf_fini(&b);
    job_free(&j);
    job_free(&again);
}

static void
damaged_bytes_do_no_harm(void **state)
{
    static const char bytes[] = "{}[]\",:\\0e-.tnu \x01\xff";
    struct job_of j;
    struct buf b;
    struct err e;
    struct rec probe;
    int i, k;

    (void)state;
    job_load(&j, "map",
             "function(e) pcall(function() for k, v in pairs(e) do "
             "if type(v) == 'userdata' and v ~= s.null then "
             "for _, x in pairs(v) do end end end end) "
             "pcall(function() e.new = s.table(e) end) "
             "e.a = e.b e.d = s.null return e end");
    buf_init(&b);
    for (i = 0; i < DOCS; i++) {
        buf_clear(&b);
        put_members(&b, 1, true);
        for (k = 0; k < DAMAGES; k++) {
            b.data[draw((uint32_t)b.len)] = bytes[draw(sizeof bytes - 1)];
            if (json_check(arena_dup(&j.in, b.data, b.len), b.len, false,
                           &probe, &e) == 0)
                (void)job_map(&j, buf_cstr(&b));
        }
    }
    buf_fini(&b);
    job_free(&j);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_do_what_they_do_to_tables),
        cmocka_unit_test(damaged_bytes_do_no_harm),
    };
    const char *given = getenv("SEED");

    seed =
        given != NULL ? strtoull(given, NULL, 10) : (uint64_t)clock_mono_ns();
    printf("seed %" PRIu64 "\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
