/* simdjson's one home; declared for C in format/simd.h. */
#include <simdjson.h>

extern "C" {
#include "format/simd.h"
}

static_assert(simdjson::SIMDJSON_PADDING <= (size_t)SIMD_PAD,
              "a text is padded enough for simdjson");

/* A parser grown by a huge record is not kept: its tape takes about nine
 * times the text. */
enum { KEEP_MAX = 1 << 20 };

bool
simd_utf8_ok(const char *text, size_t len)
{
    return simdjson::validate_utf8(text, len);
}

bool
simd_json_ok(const char *text, size_t len)
{
    static thread_local simdjson::dom::parser parser;
    bool ok;

    if (parser.capacity() < len) {
        size_t cap = len < 4096 ? 4096 : len;
        if (parser.allocate(cap, SIMD_DEPTH_MAX) != simdjson::SUCCESS)
            return false;
    }
    ok = parser.parse(text, len, false).error() == simdjson::SUCCESS;
    if (parser.capacity() > KEEP_MAX)
        parser = simdjson::dom::parser();
    return ok;
}
