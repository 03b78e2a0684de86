/*
 * The texts of a job: what the first load read is what every later one sees.
 */
#include "script/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/script_util.h"

/* A folder with a job's files. */
struct folder {
    char dir[32], job[64];
};

static void
write_text(const struct folder *f, const char *name, const char *text)
{
    char path[128];
    FILE *out;

    (void)snprintf(path, sizeof path, "%s/%s", f->dir, name);
    out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs(text, out);
    (void)fclose(out);
}

static void
folder_open(struct folder *f)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/files.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->job, sizeof f->job, "%s/job.lua", f->dir);
    write_text(f, "m.lua", "return { n = 1 }");
    write_text(f, "d.jsonl", "{\"v\":1}\n");
}

static void
folder_close(struct folder *f)
{
    static const char *const names[] = {"m.lua", "d.jsonl", "n.lua"};
    char path[128];
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
}

/* Its filter's name tells what it read. */
#define READS                                                                  \
    JOB_HEAD "local d = s.read { path = 'd.jsonl', format = 'json' }\n"        \
             "local ok = pcall(require, 'n')\n"                                \
             "st:filter(function() return true end, { name = 'f' .. "          \
             "require 'm'.n .. d[1].v .. (ok and 'y' or 'n') })\n"             \
             "  :sink('out', s.stdout())" JOB_END

static struct script *
load_with(const struct folder *f, struct script_files *files, const char *text)
{
    struct script_conf conf = conf_of(text);

    conf.path = f->job;
    conf.files = files;
    return load_ok(&conf);
}

static void
expect_filter(const struct script *s, const char *name)
{
    assert_non_null(strstr(script_fingerprint(s), name));
}

static void
later_loads_see_what_the_first_one_read(void **state)
{
    struct script_files *files = script_files_new();
    struct script *s, *again;
    struct script_conf conf;
    struct folder f;
    struct err e;

    (void)state;
    folder_open(&f);
    s = load_with(&f, files, READS);
    expect_filter(s, "f11n");
    script_files_seal(files);
    write_text(&f, "m.lua", "return { n = 2 }");
    write_text(&f, "d.jsonl", "{\"v\":2}\n");
    write_text(&f, "n.lua", "return 1");

    conf = (struct script_conf){.path = f.job, .files = files, .seed = 2};
    again = load_ok(&conf);

    expect_filter(again, "f11n");
    assert_int_equal(script_check_same(s, again, &e), 0);
    script_free(&again);
    again = load_with(&f, NULL, READS);
    expect_filter(again, "f22y");
    script_free(&again);
    script_free(&s);
    script_files_free(&files);
    folder_close(&f);
}

static void
every_text_and_every_miss_is_in_the_set(void **state)
{
    static const char *const expected[] = {"job.lua",    "d.jsonl",
                                           "-n.lua",     "-n/init.lua",
                                           "-lib/n.lua", "-lib/n/init.lua"};
    struct script_files *files = script_files_new();
    const struct script_file *n;
    struct script *s;
    struct folder f;
    size_t i;

    (void)state;
    folder_open(&f);
    s = load_with(&f, files, READS);

    for (i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        n = script_files_at(files, i);
        assert_int_equal(n->missing, expected[i][0] == '-');
        assert_string_equal(n->path + strlen(f.dir) + 1,
                            expected[i] + n->missing);
    }
    n = script_files_at(files, script_files_count(files) - 1);
    assert_string_equal(n->path + strlen(f.dir), "/m.lua");
    assert_int_equal(n->kind, SCRIPT_FILE_MODULE);
    assert_string_equal(n->text, "return { n = 1 }");
    n = script_files_at(files, 1);
    assert_int_equal(n->kind, SCRIPT_FILE_DATA);
    n = script_files_at(files, 0);
    assert_int_equal(n->kind, SCRIPT_FILE_JOB);
    assert_string_equal(n->text, READS);
    script_free(&s);
    script_files_free(&files);
    folder_close(&f);
}

static void
a_sealed_set_reads_nothing(void **state)
{
    struct script_files *files = script_files_new();
    struct script_conf conf = conf_of(JOB_HEAD "require 'n'" JOB_END);
    char expected[192];
    struct folder f;

    (void)state;
    folder_open(&f);
    write_text(&f, "n.lua", "return 1");
    conf.path = f.job;
    conf.files = files;
    script_files_seal(files);

    (void)snprintf(expected, sizeof expected,
                   "%s:4: %s/n.lua: it was not read when the job was loaded",
                   f.job, f.dir);
    load_fails(&conf, ERR_JOBFILE, expected);
    assert_int_equal(script_files_count(files), 0);
    script_files_free(&files);
    folder_close(&f);
}

/* As before a C module that is required in a call. */
static void
a_module_that_is_nowhere_is_not_found_also_after_the_load(void **state)
{
    struct script_files *files = script_files_new();
    struct script_conf conf = conf_of(
        JOB_HEAD
        "local _, m = pcall(require, 'nowhere')\n"
        "assert(m:find(\"module 'nowhere' not found\", 1, true), m)" JOB_END);
    struct script *s;
    struct folder f;
    struct err e;

    (void)state;
    folder_open(&f);
    conf.path = f.job;
    conf.files = files;
    script_files_seal(files);
    err_clear(&e);
    assert_int_equal(script_load(&conf, &s, &e), 0);
    script_free(&s);
    script_files_free(&files);
    folder_close(&f);
}

static struct script_files *
some_files(const char *data, const char *missing)
{
    struct script_files *files = script_files_new();
    const struct script_file *n;
    struct err e;

    script_files_add(files, SCRIPT_FILE_JOB, "job.lua", "return 1", 8);
    script_files_add(files, SCRIPT_FILE_DATA, "d", data, strlen(data));
    assert_int_equal(
        script_files_read(files, SCRIPT_FILE_MODULE, missing, &n, &e),
        ERR_JOBFILE);
    return files;
}

static void
the_hash_tells_versions_apart(void **state)
{
    struct script_files *a = some_files("x", "/nowhere/m.lua");
    struct script_files *b = some_files("x", "/nowhere/m.lua");
    struct script_files *c = some_files("y", "/nowhere/m.lua");
    struct script_files *d = some_files("x", "/nowhere/n.lua");

    (void)state;
    assert_int_equal(script_files_hash(a), script_files_hash(b));
    assert_int_not_equal(script_files_hash(a), script_files_hash(c));
    assert_int_not_equal(script_files_hash(a), script_files_hash(d));
    script_files_free(&a);
    script_files_free(&b);
    script_files_free(&c);
    script_files_free(&d);
}

static void
bytes_read_back_as_a_sealed_set_and_damage_is_seen(void **state)
{
    struct script_files *a = some_files("x", "/nowhere/m.lua"), *b = NULL;
    const struct script_file *n;
    struct buf bytes;
    struct err e;
    size_t i;

    (void)state;
    buf_init(&bytes);
    script_files_put(a, &bytes);
    assert_int_equal(script_files_get(bytes.data, bytes.len, &b, &e), 0);
    assert_int_equal(script_files_hash(a), script_files_hash(b));
    assert_int_equal(script_files_count(b), 3);
    assert_string_equal(script_files_at(b, 1)->text, "x");
    assert_int_equal(
        script_files_read(b, SCRIPT_FILE_MODULE, "/nowhere/m.lua", &n, &e),
        ERR_JOBFILE);
    assert_string_equal(e.msg, "cannot open: No such file or directory");
    assert_int_equal(script_files_read(b, SCRIPT_FILE_MODULE, "/x", &n, &e),
                     ERR_JOBFILE);
    assert_string_equal(e.msg, "it was not read when the job was loaded");
    script_files_free(&b);

    for (i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 1;
        assert_int_equal(script_files_get(bytes.data, bytes.len, &b, &e),
                         ERR_IO);
        bytes.data[i] ^= 1;
        assert_int_equal(script_files_get(bytes.data, i, &b, &e), ERR_IO);
    }
    buf_fini(&bytes);
    script_files_free(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_loads_see_what_the_first_one_read),
        cmocka_unit_test(every_text_and_every_miss_is_in_the_set),
        cmocka_unit_test(a_sealed_set_reads_nothing),
        cmocka_unit_test(
            a_module_that_is_nowhere_is_not_found_also_after_the_load),
        cmocka_unit_test(the_hash_tells_versions_apart),
        cmocka_unit_test(bytes_read_back_as_a_sealed_set_and_damage_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
