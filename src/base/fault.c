#include "base/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum fault_kind { FAULT_ONCE, FAULT_FROM, FAULT_KILL };

struct fault_point {
    char name[FAULT_NAME_MAX];
    unsigned long at; /* number of the hit, from 1 */
    enum fault_kind kind;
    atomic_ulong hits;
};

/* No allocation here: "mem" is a fault point itself. */
static struct fault_point points[FAULT_POINTS_MAX];
static unsigned point_count;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static bool
read_point(const char *text, size_t len, struct fault_point *p)
{
    const char *eq = memchr(text, '=', len);
    size_t name_len = eq != NULL ? (size_t)(eq - text) : 0;
    char *end;

    if (name_len == 0 || name_len >= sizeof p->name || eq[1] < '1' ||
        eq[1] > '9')
        return false;
    memcpy(p->name, text, name_len);
    p->name[name_len] = '\0';
    p->at = strtoul(eq + 1, &end, 10);
    p->kind = *end == '!' ? FAULT_KILL : *end == '+' ? FAULT_FROM : FAULT_ONCE;
    if (p->kind != FAULT_ONCE)
        end++;
    atomic_store(&p->hits, 0);
    return end == text + len;
}

static void
read_spec(const char *spec)
{
    point_count = 0;
    while (spec != NULL && *spec != '\0' && point_count < FAULT_POINTS_MAX) {
        size_t len = strcspn(spec, ",");

        if (read_point(spec, len, &points[point_count]))
            point_count++;
        spec += len + (spec[len] == ',');
    }
}

static void
read_env(void)
{
    read_spec(getenv("STREAMLUA_FAULT"));
}

void
fault_setup(const char *spec)
{
    (void)pthread_once(&env_once, read_env);
    read_spec(spec);
}

bool
fault_check(const char *name)
{
    unsigned i;

    (void)pthread_once(&env_once, read_env);
    for (i = 0; i < point_count; i++) {
        struct fault_point *p = &points[i];
        unsigned long hit;

        if (strcmp(p->name, name) != 0)
            continue;
        hit = atomic_fetch_add(&p->hits, 1) + 1;
        if (hit == p->at && p->kind == FAULT_KILL)
            (void)raise(SIGKILL);
        return hit == p->at || (hit > p->at && p->kind == FAULT_FROM);
    }
    return false;
}
