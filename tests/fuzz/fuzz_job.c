/*
 * The job loader: any text is a job or one error with a message, and what
 * loads also plans or is refused.
 */
#include "base/buf.h"
#include "fuzz.h"
#include "plan/plan.h"
#include "script/script.h"

enum { LOAD_TIMEOUT_MS = 200, TEXT_MAX = 65536 };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct script_conf conf = {0};
    struct plan_conf pc = {.cores = 2};
    struct script *s = NULL;
    struct plan *p = NULL;
    struct buf out;
    struct err e;

    if (size > TEXT_MAX)
        return 0;
    arena_init(&a);
    buf_init(&out);
    err_clear(&e);
    conf.path = "job.lua";
    conf.text = arena_dup(&a, data, size);
    conf.text_len = size;
    conf.params = opt_new_map(&a);
    conf.args = opt_new_list(&a);
    conf.load_timeout_ms = LOAD_TIMEOUT_MS;
    if (script_load(&conf, &s, &e) != 0) {
        FUZZ_CHECK(e.code != 0 && e.msg[0] != '\0');
    } else if (script_test_laws(s, &e) != 0 ||
               plan_build(script_job(s), &pc, &p, &e) != 0) {
        FUZZ_CHECK(e.code != 0 && e.msg[0] != '\0');
    } else {
        plan_explain_text(p, &out);
        plan_explain_json(p, &out);
        plan_explain_dot(p, &out);
        FUZZ_CHECK(out.len > 0);
    }
    plan_free(&p);
    script_free(&s);
    buf_fini(&out);
    arena_fini(&a);
    return 0;
}
