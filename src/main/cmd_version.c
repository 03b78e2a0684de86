#include "config.h"

#include <string.h>

#include "base/buf.h"
#include "main/cmd.h"

/* What configure found and chose; its own summary shows the same. */
static const struct {
    const char *name, *value;
} build[] = {
    {"compiler", CONF_COMPILER},   {"flags", CONF_FLAGS},
    {"host", CONF_HOST},           {"lua", CONF_LUA},
    {"librdkafka", CONF_RDKAFKA},  {"lmdb", CONF_LMDB},
    {"simdjson", CONF_SIMDJSON},   {"ck", CONF_CK},
    {"xxhash", CONF_XXHASH},       {"jemalloc", CONF_JEMALLOC},
    {"sanitizer", CONF_SANITIZER}, {"test mode", CONF_TEST_MODE},
};

int
cmd_version(struct cli *c)
{
    struct buf out;
    size_t i, n = sizeof build / sizeof build[0];
    int rc;

    buf_init(&out);
    if (cli_has(c, FLAG_JSON)) {
        buf_adds(&out, "{\"name\":\"" PACKAGE_NAME
                       "\",\"version\":\"" PACKAGE_VERSION "\",\"build\":{");
        for (i = 0; i < n; i++) {
            json_put_name(&out, build[i].name, strlen(build[i].name));
            json_put_str(&out, build[i].value, strlen(build[i].value));
        }
        buf_adds(&out, "}}\n");
    } else {
        buf_adds(&out, PACKAGE_NAME " " PACKAGE_VERSION "\n");
        for (i = 0; i < n; i++)
            buf_addf(&out, "  %-13s %s\n", build[i].name, build[i].value);
    }
    rc = cmd_print(out.data, out.len);
    buf_fini(&out);
    return rc;
}
