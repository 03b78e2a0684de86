#include "run/connectors.h"

#include <string.h>

#include "connect/connect.h"
#include "kafka/kafka.h"
#include "script/script.h"

const struct source_type *
connectors_source(const char *name)
{
    static const struct {
        const char *name;
        const struct source_type *type;
    } table[] = {
        {"kafka", &kafka_source_type}, {"file", &file_source_type},
        {"stdin", &stdin_source_type}, {"generator", &generator_source_type},
        {"lua", &script_source_type},
    };
    size_t i;

    for (i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].type;
    return NULL;
}

const struct sink_type *
connectors_sink(const char *name)
{
    static const struct {
        const char *name;
        const struct sink_type *type;
    } table[] = {
        {"kafka", &kafka_sink_type},   {"file", &file_sink_type},
        {"stdout", &stdout_sink_type}, {"blackhole", &blackhole_sink_type},
        {"lua", &script_sink_type},
    };
    size_t i;

    for (i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].type;
    return NULL;
}
