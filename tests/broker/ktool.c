/*
 * A small Kafka tool for tests of whole jobs, independent of streamlua.
 *
 *   ktool BOOTSTRAP create TOPIC PARTITIONS [name=value]...
 *   ktool BOOTSTRAP delete TOPIC
 *   ktool BOOTSTRAP grow TOPIC PARTITIONS
 *   ktool BOOTSTRAP trim TOPIC PARTITION OFFSET
 *   ktool BOOTSTRAP ends TOPIC                 lines: partition low LSO
 *   ktool BOOTSTRAP produce TOPIC FILE|- [options]
 *       --partition N     to this partition (default: by key)
 *       --key-sep C       a line is KEY C VALUE
 *       --tsv             a line is PARTITION \t TS \t KEY \t VALUE; an empty
 *                         partition or timestamp is "none", \N is null
 *       --headers         (with --tsv) NAME=VALUE,... between TS and KEY
 *       --txn commit|abort   all of it in one transaction
 *       -X name=value     client property (compression.codec=lz4, ...)
 *   ktool BOOTSTRAP read TOPIC [--tsv] [--headers] [--offsets]
 *                              [--uncommitted]
 *       values, one a line, partition by partition as they come; --tsv and
 *       --headers as above; --offsets puts the offset in front
 *
 * Exit 0, 64 for a wrong call; a failing call ends it by abort().
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kt.h"

enum { EXTRA_MAX = 32 };

struct produce {
    const char *topic, *file, *txn;
    const char *extra[EXTRA_MAX + 1];
    int extra_count;
    int32_t partition;
    char key_sep;
    bool tsv, headers;
};

static int
usage(void)
{
    (void)fprintf(stderr, "usage: ktool BOOTSTRAP create|delete|grow|trim|"
                          "ends|produce|read TOPIC ...\n");
    return 64;
}

static bool
is_null(const char *s)
{
    return strcmp(s, "\\N") == 0;
}

/* NAME=VALUE,... */
static rd_kafka_headers_t *
parse_headers(char *cell)
{
    rd_kafka_headers_t *h = rd_kafka_headers_new(4);
    char *save = NULL, *one = strtok_r(cell, ",", &save);

    for (; one != NULL; one = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(one, '=');

        if (eq == NULL)
            exit(usage());
        *eq = '\0';
        (void)rd_kafka_header_add(h, one, -1, is_null(eq + 1) ? NULL : eq + 1,
                                  is_null(eq + 1) ? 0 : -1);
    }
    return h;
}

/* Cut `line` (len bytes) into a record. */
static void
parse(const struct produce *p, char *line, size_t len, struct kt_record *r)
{
    char *cell[5], *at = line;
    int i, key = p->headers ? 3 : 2, val = key + 1;

    memset(r, 0, sizeof *r);
    r->partition = p->partition;
    r->val = line;
    r->val_len = len;
    if (p->key_sep != '\0') {
        char *sep = memchr(line, p->key_sep, len);

        if (sep == NULL)
            return;
        r->key = line;
        r->key_len = (size_t)(sep - line);
        r->val = sep + 1;
        r->val_len = len - r->key_len - 1;
    }
    if (!p->tsv)
        return;
    for (i = 0; i <= val; i++) {
        cell[i] = at;
        if (i == val)
            break;
        at = strchr(at, '\t');
        if (at == NULL)
            exit(usage());
        *at++ = '\0';
    }
    if (cell[0][0] != '\0')
        r->partition = (int32_t)strtol(cell[0], NULL, 10);
    if (cell[1][0] != '\0')
        r->ts = strtoll(cell[1], NULL, 10);
    if (p->headers)
        r->headers = parse_headers(cell[2]);
    r->key = is_null(cell[key]) ? NULL : cell[key];
    r->key_len = r->key == NULL ? 0 : strlen(cell[key]);
    r->val = is_null(cell[val]) ? NULL : cell[val];
    r->val_len = r->val == NULL ? 0 : len - (size_t)(cell[val] - line);
}

static int
run_produce(const char *servers, const struct produce *p)
{
    FILE *f = strcmp(p->file, "-") == 0 ? stdin : fopen(p->file, "r");
    rd_kafka_t *rk;
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    if (f == NULL) {
        perror(p->file);
        return 1;
    }
    rk = kt_producer(servers, p->txn == NULL ? NULL : "ktool", p->extra);
    if (p->txn != NULL)
        kt_begin(rk);
    while ((len = getline(&line, &size, f)) > 0) {
        struct kt_record r;

        if (line[len - 1] == '\n')
            line[--len] = '\0';
        parse(p, line, (size_t)len, &r);
        kt_put(rk, p->topic, &r);
    }
    if (p->txn != NULL)
        kt_end(rk, strcmp(p->txn, "commit") == 0);
    kt_close(&rk);
    free(line);
    return f == stdin ? 0 : fclose(f);
}

static int
cmd_produce(const char *servers, int argc, char **argv)
{
    struct produce p = {.topic = argv[0], .partition = -1};
    int i;

    if (argc < 2)
        return usage();
    p.file = argv[1];
    for (i = 2; i < argc; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--tsv") == 0)
            p.tsv = true;
        else if (strcmp(argv[i], "--headers") == 0)
            p.headers = true;
        else if (more && strcmp(argv[i], "--partition") == 0)
            p.partition = (int32_t)strtol(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--key-sep") == 0)
            p.key_sep = argv[++i][0];
        else if (more && strcmp(argv[i], "--txn") == 0)
            p.txn = argv[++i];
        else if (more && strcmp(argv[i], "-X") == 0 &&
                 p.extra_count < EXTRA_MAX)
            p.extra[p.extra_count++] = argv[++i];
        else
            return usage();
    }
    return run_produce(servers, &p);
}

struct show {
    bool tsv, headers, offsets;
};

static void
show_cell(const void *bytes, size_t len)
{
    if (bytes == NULL)
        (void)fputs("\\N", stdout);
    else
        (void)fwrite(bytes, 1, len, stdout);
}

static void
show_headers(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *h;
    const char *name;
    const void *val;
    size_t len, i;

    if (rd_kafka_message_headers(m, &h) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    for (i = 0; rd_kafka_header_get_all(h, i, &name, &val, &len) == 0; i++) {
        (void)printf("%s%s=", i == 0 ? "" : ",", name);
        show_cell(val, len);
    }
}

static void
show_record(void *arg, const rd_kafka_message_t *m)
{
    const struct show *s = arg;

    if (s->offsets)
        (void)printf("%" PRId64 "\t", m->offset);
    if (s->tsv) {
        (void)printf("%" PRId32 "\t%" PRId64 "\t", m->partition,
                     rd_kafka_message_timestamp(m, NULL));
        if (s->headers) {
            show_headers(m);
            (void)putchar('\t');
        }
        show_cell(m->key, m->key_len);
        (void)putchar('\t');
    }
    show_cell(m->payload, m->len);
    (void)putchar('\n');
}

static int
cmd_read(const char *servers, int argc, char **argv)
{
    struct show s = {false, false, false};
    bool committed = true;
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tsv") == 0)
            s.tsv = true;
        else if (strcmp(argv[i], "--headers") == 0)
            s.headers = true;
        else if (strcmp(argv[i], "--offsets") == 0)
            s.offsets = true;
        else if (strcmp(argv[i], "--uncommitted") == 0)
            committed = false;
        else
            return usage();
    }
    (void)kt_read(servers, argv[0], committed, show_record, &s);
    return fflush(stdout);
}

static int
cmd_ends(const char *servers, const char *topic)
{
    int n = kt_partitions(servers, topic), i;

    for (i = 0; i < n; i++) {
        int64_t low, high;

        kt_ends(servers, topic, i, true, &low, &high);
        (void)printf("%d %" PRId64 " %" PRId64 "\n", i, low, high);
    }
    return fflush(stdout);
}

int
main(int argc, char **argv)
{
    const char *servers, *cmd;

    if (argc < 4)
        return usage();
    servers = argv[1];
    cmd = argv[2];
    if (strcmp(cmd, "produce") == 0)
        return cmd_produce(servers, argc - 3, argv + 3);
    if (strcmp(cmd, "read") == 0)
        return cmd_read(servers, argc - 3, argv + 3);
    if (strcmp(cmd, "ends") == 0)
        return cmd_ends(servers, argv[3]);
    if (strcmp(cmd, "delete") == 0)
        kt_delete(servers, argv[3]);
    else if (strcmp(cmd, "create") == 0 && argc >= 5)
        kt_create(servers, argv[3], atoi(argv[4]),
                  (const char *const *)argv + 5);
    else if (strcmp(cmd, "grow") == 0 && argc == 5)
        kt_grow(servers, argv[3], atoi(argv[4]));
    else if (strcmp(cmd, "trim") == 0 && argc == 6)
        kt_trim(servers, argv[3], atoi(argv[4]), strtoll(argv[5], NULL, 10));
    else
        return usage();
    return 0;
}
