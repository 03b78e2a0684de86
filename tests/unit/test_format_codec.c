/*
 * Decoders and encoders: json, text, raw and csv, policies and envelope.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "format/format.h"

struct fix {
    struct arena a;
    struct opt *opts;
    struct decoder *d;
    struct encoder *c;
    struct buf out;
};

static int
setup(void **state)
{
    struct fix *f = calloc(1, sizeof *f);

    if (f == NULL)
        return -1;
    arena_init(&f->a);
    buf_init(&f->out);
    f->opts = opt_new_map(&f->a);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fix *f = *state;

    decoder_free(&f->d);
    encoder_free(&f->c);
    buf_fini(&f->out);
    arena_fini(&f->a);
    free(f);
    return 0;
}

static void
set(struct fix *f, const char *name, const char *value)
{
    opt_add(&f->a, f->opts, name, opt_new_str(&f->a, value, strlen(value)));
}

static void
set_true(struct fix *f, const char *name)
{
    struct opt *o = opt_new(&f->a);

    o->type = OPT_BOOL;
    o->i = 1;
    opt_add(&f->a, f->opts, name, o);
}

/* fields as strings, NULL-terminated */
static void
set_fields(struct fix *f, const char *const *names)
{
    struct opt *list = opt_new_list(&f->a);

    for (; *names != NULL; names++)
        opt_add(&f->a, list, NULL, opt_new_str(&f->a, *names, strlen(*names)));
    opt_add(&f->a, f->opts, "fields", list);
}

static void
open_decoder(struct fix *f, bool has_lines)
{
    struct err e;

    assert_int_equal(decoder_new(f->opts, has_lines, &f->d, &e), 0);
}

static int
decode(struct fix *f, const char *bytes, struct rec *r, struct err *e)
{
    memset(r, 0, sizeof *r);
    return decoder_decode(f->d, arena_strdup(&f->a, bytes), strlen(bytes),
                          &f->a, r, e);
}

static void
want(struct fix *f, const char *bytes, uint8_t kind, const char *val)
{
    struct rec r;
    struct err e;

    assert_int_equal(decode(f, bytes, &r, &e), 1);
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.val_len, strlen(val));
    assert_memory_equal(r.val, val, r.val_len);
}

static void
want_bad(struct fix *f, const char *bytes, const char *part)
{
    struct rec r;
    struct err e;

    assert_int_equal(decode(f, bytes, &r, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_DECODE);
    if (strstr(e.msg, part) == NULL)
        fail_msg("'%s' does not say '%s'", e.msg, part);
    assert_int_equal(r.kind, REC_TEXT);
    assert_true(r.flags & REC_RAW);
    assert_int_equal(r.val_len, strlen(bytes));
}

static void
json_lines_ignore_blanks_and_messages_do_not(void **state)
{
    struct fix *f = *state;
    struct rec r;
    struct err e;

    set(f, "bigint", "string");
    open_decoder(f, true);
    want(f, "{\"a\":1}\r", REC_OBJECT, "{\"a\":1}");
    want(f, "[1]", REC_VALUE, "[1]");
    assert_int_equal(decode(f, " \t\r", &r, &e), 0);
    assert_int_equal(decode(f, "{}", &r, &e), 1);
    assert_int_equal(r.flags, REC_BIGINT_STRING);
    want_bad(f, "{\"a\":1", "begins with '{' and ends with '1'");
    decoder_free(&f->d);

    open_decoder(f, false);
    want_bad(f, "", "nothing there");
    assert_int_equal(decoder_decode(f->d, NULL, 0, &f->a, &r, &e), 1);
    assert_int_equal(r.kind, REC_TOMBSTONE);
    assert_null(r.val);
    assert_false(decoder_is_csv(f->d));
}

static void
text_and_raw_take_the_bytes(void **state)
{
    struct fix *f = *state;
    struct rec r;
    struct err e;

    set(f, "format", "text");
    open_decoder(f, true);
    want(f, "abc\r", REC_TEXT, "abc");
    want(f, "", REC_TEXT, "");
    want_bad(f, "\xFF", "UTF-8");
    decoder_free(&f->d);

    f->opts = opt_new_map(&f->a);
    set(f, "format", "raw");
    open_decoder(f, true);
    want(f, "\xFF\r", REC_TEXT, "\xFF\r");
    assert_int_equal(decode(f, "x", &r, &e), 1);
    assert_true(r.flags & REC_RAW);
}

static void
csv_cells_have_the_declared_types(void **state)
{
    static const char *const fields[] = {"id:int", "p:float", "name", "b:bool",
                                         NULL};
    struct fix *f = *state;
    struct rec r;
    struct err e;

    set(f, "format", "csv");
    set_fields(f, fields);
    open_decoder(f, true);
    assert_true(decoder_is_csv(f->d));
    want(f, "1,2.5,x,true", REC_OBJECT,
         "{\"id\":1,\"p\":2.5,\"name\":\"x\",\"b\":true}");
    want(f, "-7,2,\"a \"\"q\"\", b\r\nc\",false\r", REC_OBJECT,
         "{\"id\":-7,\"p\":2.0,\"name\":\"a \\\"q\\\", b\\r\\nc\","
         "\"b\":false}");
    want(f, ",,,", REC_OBJECT,
         "{\"id\":null,\"p\":null,\"name\":null,\"b\":null}");
    want(f, ",,\"\",", REC_OBJECT,
         "{\"id\":null,\"p\":null,\"name\":\"\",\"b\":null}");
    assert_int_equal(decode(f, "", &r, &e), 0);
    want_bad(f, "x,1,n,true", "'x' of field 'id' is not an int");
    want_bad(f, "1,y,n,true", "'y' of field 'p' is not a float");
    want_bad(f, "1,1,n,1", "is not a bool");
    want_bad(f, "99999999999999999999,1,n,true", "not an int");
    want_bad(f, "1,2,3", "3 cells, expected 4");
    want_bad(f, "1,2,3,true,5", "at least 5 cells");
    want_bad(f, "1,2,\"x,true", "without end");
    want_bad(f, "1,2,\"x\"y,true", "behind a quoted cell");
    want_bad(f, "1,2,x\"y,true", "quote inside");
    want_bad(f, "1,2,\xFF,true", "UTF-8");
}

static void
csv_header_names_the_columns_of_each_file(void **state)
{
    struct fix *f = *state;
    struct rec r;
    struct err e;

    set(f, "format", "csv");
    set(f, "delimiter", ";");
    set_true(f, "header");
    open_decoder(f, true);
    assert_int_equal(decode(f, "a;b c", &r, &e), 0);
    want(f, "1;x", REC_OBJECT, "{\"a\":\"1\",\"b c\":\"x\"}");
    decoder_restart(f->d);
    assert_int_equal(decode(f, "z", &r, &e), 0);
    want(f, "1", REC_OBJECT, "{\"z\":\"1\"}");
    want(f, "", REC_OBJECT, "{\"z\":null}");
}

static void
csv_header_must_match_declared_fields(void **state)
{
    static const char *const fields[] = {"a:int", "b", NULL};
    struct fix *f = *state;
    struct rec r;
    struct err e;

    set(f, "format", "csv");
    set_true(f, "header");
    set_fields(f, fields);
    open_decoder(f, true);
    assert_int_equal(decode(f, "a,b\r", &r, &e), 0);
    want(f, "1,x", REC_OBJECT, "{\"a\":1,\"b\":\"x\"}");
    decoder_restart(f->d);
    want_bad(f, "b,a", "column 1 of the header is 'b'");
}

static void
options_that_make_no_sense_are_refused(void **state)
{
    static const char *const twice[] = {"a", "a:int", NULL};
    static const char *const type[] = {"a:number", NULL};
    struct fix *f = *state;
    struct err e;

    set(f, "format", "xml");
    assert_int_equal(decoder_new(f->opts, true, &f->d, &e), ERR_JOBFILE);
    assert_int_equal(encoder_new(f->opts, &f->c, &e), ERR_JOBFILE);
    f->opts = opt_new_map(&f->a);
    set(f, "format", "csv");
    assert_int_equal(decoder_new(f->opts, true, &f->d, &e), ERR_JOBFILE);
    assert_int_equal(encoder_new(f->opts, &f->c, &e), ERR_JOBFILE);
    set_fields(f, twice);
    assert_int_equal(decoder_new(f->opts, true, &f->d, &e), ERR_JOBFILE);
    f->opts = opt_new_map(&f->a);
    set(f, "format", "csv");
    set_fields(f, type);
    assert_int_equal(decoder_new(f->opts, true, &f->d, &e), ERR_JOBFILE);
    assert_null(f->d);
}

static void
open_encoder(struct fix *f)
{
    struct err e;

    assert_int_equal(encoder_new(f->opts, &f->c, &e), 0);
}

static struct rec
rec_of(struct fix *f, uint8_t kind, uint8_t flags, const char *val)
{
    struct rec r = {.kind = kind, .flags = flags};

    if (val != NULL) {
        r.val = arena_strdup(&f->a, val);
        r.val_len = (uint32_t)strlen(val);
    }
    return r;
}

static void
want_out(struct fix *f, uint8_t kind, uint8_t flags, const char *val,
         const char *out)
{
    struct rec r = rec_of(f, kind, flags, val);
    struct err e;
    bool null;
    int rc;

    buf_clear(&f->out);
    buf_adds(&f->out, ">");
    rc = encoder_encode(f->c, &r, NULL, 0, &f->out, &null, &e);
    if (out == NULL) {
        assert_int_equal(rc, ERR_RECORD);
        assert_int_equal(e.cause, CAUSE_ENCODE);
        assert_string_equal(buf_cstr(&f->out), ">");
        return;
    }
    assert_int_equal(rc, 0);
    assert_string_equal(buf_cstr(&f->out) + 1, out);
    assert_int_equal(null, kind == REC_TOMBSTONE);
}

static void
json_is_written_as_it_came(void **state)
{
    struct fix *f = *state;

    open_encoder(f);
    assert_string_equal(encoder_suffix(f->c), "jsonl");
    assert_null(encoder_header(f->c));
    want_out(f, REC_OBJECT, 0, "{ \"a\":1.50 }", "{ \"a\":1.50 }");
    want_out(f, REC_VALUE, 0, "[1, 2]", "[1, 2]");
    want_out(f, REC_TEXT, 0, "a\"b", "{\"value\":\"a\\\"b\"}");
    want_out(f, REC_TEXT, REC_RAW, "\xFF", NULL);
    want_out(f, REC_TOMBSTONE, 0, "{\"id\":1}", "null");
    want_out(f, REC_OBJECT, REC_EXT, "{\"a\":NaN}", NULL);
}

static void
json_policies_are_applied(void **state)
{
    struct fix *f = *state;

    set(f, "nan", "string");
    set(f, "invalid_utf8", "replace");
    open_encoder(f);
    want_out(f, REC_OBJECT, REC_EXT, "{\"a\":NaN}", "{\"a\":\"NaN\"}");
    want_out(f, REC_TEXT, REC_RAW, "x\xFF\n",
             "{\"value\":\"x\xEF\xBF\xBD\\n\"}");
}

static void
envelope_holds_key_time_and_value(void **state)
{
    struct fix *f = *state;
    struct rec r = rec_of(f, REC_OBJECT, REC_HAS_TS, "{\"a\":1}");
    struct err e;
    bool null;

    set_true(f, "envelope");
    open_encoder(f);
    r.ts = -5;
    assert_int_equal(encoder_encode(f->c, &r, "k\"", 2, &f->out, &null, &e), 0);
    assert_false(null);
    assert_string_equal(
        buf_cstr(&f->out),
        "{\"key\":\"k\\\"\",\"timestamp\":-5,\"value\":{\"a\":1}}");
    buf_clear(&f->out);
    r = rec_of(f, REC_TOMBSTONE, 0, NULL);
    assert_int_equal(encoder_encode(f->c, &r, NULL, 0, &f->out, &null, &e), 0);
    assert_false(null);
    assert_string_equal(buf_cstr(&f->out),
                        "{\"key\":null,\"timestamp\":null,\"value\":null}");
}

static void
text_needs_a_string_or_number(void **state)
{
    struct fix *f = *state;

    set(f, "format", "text");
    open_encoder(f);
    assert_string_equal(encoder_suffix(f->c), "txt");
    want_out(f, REC_TEXT, 0, "abc", "abc");
    want_out(f, REC_OBJECT, 0, "{\"value\":\"a\\n\"}", "a\n");
    want_out(f, REC_OBJECT, 0, "{\"value\":15.0}", "15.0");
    want_out(f, REC_VALUE, 0, "7", "7");
    want_out(f, REC_OBJECT, 0, "{\"value\":[1]}", NULL);
    want_out(f, REC_OBJECT, 0, "{\"other\":1}", NULL);
    want_out(f, REC_TEXT, REC_RAW, "\xFF", NULL);
    want_out(f, REC_TOMBSTONE, 0, NULL, "");
    encoder_free(&f->c);

    f->opts = opt_new_map(&f->a);
    set(f, "format", "raw");
    open_encoder(f);
    assert_string_equal(encoder_suffix(f->c), "bin");
    want_out(f, REC_TEXT, REC_RAW, "\xFF", "\xFF");
}

static void
csv_quotes_only_where_needed(void **state)
{
    static const char *const fields[] = {"a", "b:int", "c.d", NULL};
    struct fix *f = *state;

    set(f, "format", "csv");
    set_true(f, "header");
    set_fields(f, fields);
    open_encoder(f);
    assert_string_equal(encoder_suffix(f->c), "csv");
    assert_string_equal(encoder_header(f->c), "a,b,c.d");
    want_out(f, REC_OBJECT, 0, "{\"b\":1,\"a\":\"x y\",\"c.d\":true}",
             "x y,1,true");
    want_out(f, REC_OBJECT, 0, "{\"a\":\"x,\\\"y\\\"\",\"b\":null}",
             "\"x,\"\"y\"\"\",,");
    want_out(f, REC_OBJECT, 0, "{\"a\":\"\",\"b\":2.50,\"c.d\":[1,\"z\"]}",
             "\"\",2.5,\"[1,\"\"z\"\"]\"");
    want_out(f, REC_OBJECT, REC_EXT, "{\"a\":NaN}", NULL);
}

#define codec_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        codec_test(json_lines_ignore_blanks_and_messages_do_not),
        codec_test(text_and_raw_take_the_bytes),
        codec_test(csv_cells_have_the_declared_types),
        codec_test(csv_header_names_the_columns_of_each_file),
        codec_test(csv_header_must_match_declared_fields),
        codec_test(options_that_make_no_sense_are_refused),
        codec_test(json_is_written_as_it_came),
        codec_test(json_policies_are_applied),
        codec_test(envelope_holds_key_time_and_value),
        codec_test(text_needs_a_string_or_number),
        codec_test(csv_quotes_only_where_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
