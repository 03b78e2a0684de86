/*
 * How much memory the process may use: the machine's, or less where a
 * cgroup (version 1 or 2) says so. A limit of any group above the own one
 * counts. Read once, when a plan is made.
 */
#include "plan/plan_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LEN = 4096 };

uint64_t
plan_memory_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

/* The number in a file, or `otherwise`: no such file, "max". */
static uint64_t
read_number(const char *path, uint64_t otherwise)
{
    FILE *f = fopen(path, "re");
    char line[32] = "", *end;
    unsigned long long n;

    if (f == NULL)
        return otherwise;
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    (void)fclose(f);
    errno = 0;
    n = strtoull(line, &end, 10);
    return end == line || errno != 0 ? otherwise : n;
}

/* The least of `limit` and what the group at `path` and all above it say.
 * Version 1 says "no limit" with a number near 2^63. */
static uint64_t
walk(const char *mount, const char *path, const char *file, uint64_t limit)
{
    char group[PATH_LEN], name[2 * PATH_LEN + 64];
    uint64_t n;
    char *slash;

    (void)snprintf(group, sizeof group, "%s", path);
    for (;;) {
        (void)snprintf(name, sizeof name, "%s%s/%s", mount, group, file);
        n = read_number(name, limit);
        if (n > 0 && n < limit)
            limit = n;
        slash = strrchr(group, '/');
        if (slash == NULL)
            return limit;
        *slash = '\0';
    }
}

/* Whether `list`, "cpu,memory", names the controller `word`. */
static bool
names(const char *list, const char *word)
{
    size_t len = strlen(word), n;

    for (;;) {
        n = strcspn(list, ",");
        if (n == len && memcmp(list, word, n) == 0)
            return true;
        if (list[n] == '\0')
            return false;
        list += n + 1;
    }
}

/* One line of /proc/self/cgroup: "0::/path" is version 2, "9:memory:/path"
 * version 1. */
static uint64_t
limit_of_line(const char *root, char *line, uint64_t limit)
{
    char mount[PATH_LEN];
    char *list = strchr(line, ':'), *path;

    line[strcspn(line, "\n")] = '\0';
    path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL || path[1] != '/')
        return limit;
    *path++ = '\0';
    list++;
    if (list[0] == '\0') {
        (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        return walk(mount, path, "memory.max", limit);
    }
    if (!names(list, "memory"))
        return limit;
    (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/memory", root);
    return walk(mount, path, "memory.limit_in_bytes", limit);
}

uint64_t
plan_memory_limit(const char *root, uint64_t machine)
{
    char line[PATH_LEN];
    FILE *f;

    (void)snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    f = fopen(line, "re");
    if (f == NULL)
        return machine;
    while (fgets(line, sizeof line, f) != NULL)
        machine = limit_of_line(root, line, machine);
    (void)fclose(f);
    return machine;
}
