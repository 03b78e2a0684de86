#include "store_util.h"

#include <fcntl.h>
#include <sys/mman.h>

/*
 * Flipped bits and cut files. Whatever is done to the file, a store either
 * refuses it, naming it, or answers as if nothing had happened; it never
 * crashes and never gives a wrong value. Only a pending redo may be lost.
 * STORE_SEED=n repeats a run, STORE_FLIPS=n makes it longer.
 */

enum { KEYS = 150, FLIPS = 1200, META_BITS = 152 * 8, BATCH = 64 };

static char *dir, file[300];
static uint8_t *whole, *earlier; /* the undamaged file, and before its end */
static size_t whole_len, earlier_len;
static struct model complete, pending;

/* What the child found, and where it was when it died. */
struct findings {
    unsigned at, refused, harmless, lost_redo;
    char wrong[ERR_MSG_MAX];
};

static struct findings *found;

/* --- the file
 * ------------------------------------------------------------------ */

static uint8_t *
read_file(size_t *ret_len)
{
    FILE *f = fopen(file, "rb");
    uint8_t *bytes;
    long len;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    len = ftell(f);
    rewind(f);
    bytes = malloc((size_t)len);
    assert_int_equal(fread(bytes, 1, (size_t)len, f), len);
    (void)fclose(f);
    *ret_len = (size_t)len;
    return bytes;
}

static void
make_file(void)
{
    struct store *s;
    uint64_t n;
    int rc = 0;

    dir = temp_dir();
    (void)snprintf(file, sizeof file, "%s/data.mdb", dir);
    model_init(&complete, KEYS);
    model_init(&pending, KEYS);
    s = open_store(dir);
    test_random = 42;
    for (n = 1; n <= 6; n++) {
        must(stage_random(s, &complete, 150, n, &err));
        must(store_round_write(s, STORE_COMPLETE, &err));
        while (n <= 3 && (rc = store_merge(s, 1000, &err)) == 1)
            continue;
        must(rc);
        if (n == 2)
            earlier = read_file(&earlier_len);
    }
    must(store_merge(s, 40, &err)); /* a merge under way */
    model_copy(&pending, &complete);
    must(stage_random(s, &pending, 150, 7, &err));
    must(store_round_write(s, 0, &err));
    store_close(&s);
    whole = read_file(&whole_len);
}

static bool
write_file(const uint8_t *bytes, size_t len)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool ok = fd != -1 && write(fd, bytes, len) == (ssize_t)len;

    if (fd != -1)
        (void)close(fd);
    return ok;
}

/* --- looking, without asserts (this runs in children)
 * -------------------------- */

static bool
is_wrong(const char *what)
{
    if (found->wrong[0] == '\0')
        (void)snprintf(found->wrong, sizeof found->wrong, "%s", what);
    return true;
}

/* Scan one operator. @return 1 as the model says, 0 wrong, < 0 an error. */
static int
scan(struct store_reader *r, const struct model *m, unsigned o)
{
    uint8_t want[BIG_VALUE];
    struct store_scan *c = NULL;
    struct store_key k;
    const void *v;
    size_t len, n = 0, present = 0;
    uint32_t op;
    unsigned i;
    int rc;

    for (i = 0; i < m->count; i++)
        present += m->version[o * m->count + i] != 0;
    if (!store_reader_find(r, o == 0 ? "first" : "second", o == 0 ? 5 : 6, &op))
        return present == 0;
    rc = store_scan_open(r, op, 0, UINT16_MAX, &c, &err);
    while (rc == 0 && (rc = store_scan_next(c, &k, &v, &len, &err)) == 1) {
        char digits[16] = "";
        size_t skip = k.key_len > LONG_KEY - 20 ? LONG_KEY - 20 : 0;

        memcpy(digits, (const char *)k.key + skip, k.key_len - skip);
        i = (unsigned)strtoul(digits, NULL, 10);
        if (i >= m->count ||
            len != value_of(i, m->version[o * m->count + i], want) ||
            memcmp(v, want, len) != 0) {
            rc = ERR_FAIL;
            break;
        }
        n++;
        rc = 0;
    }
    store_scan_close(&c);
    if (rc == ERR_FAIL)
        return 0;
    return rc < 0 ? rc : n == present;
}

static int
matches(struct store *s, enum store_view view, const struct model *m)
{
    struct store_reader *r = NULL;
    int rc = store_reader_new(s, &r, &err);

    if (rc == 0)
        rc = store_reader_begin(r, view, &err);
    if (rc == 0)
        rc = store_reader_round(r) == m->round;
    if (rc == 1)
        rc = scan(r, m, 0);
    if (rc == 1)
        rc = scan(r, m, 1);
    store_reader_free(&r);
    return rc;
}

/* It opened: is it right, and can it be worked with? */
static void
use(struct store *s)
{
    struct store_status st;
    struct model m;
    int rc = matches(s, STORE_VIEW_COMPLETE, &complete);

    store_status(s, &st);
    if (rc != 1) {
        (void)is_wrong(rc == 0 ? "a wrong value" : err.msg);
        return;
    }
    if (st.pending_damaged)
        found->lost_redo++;
    if (!st.pending_damaged && matches(s, STORE_VIEW_NEWEST, &pending) != 1) {
        (void)is_wrong("a wrong redo");
        return;
    }
    if (st.pending_damaged &&
        store_round_complete(s, st.pending, 0, &err) != ERR_IO)
        (void)is_wrong("a damaged redo was completed");
    model_init(&m, KEYS);
    model_copy(&m, &complete);
    rc = store_round_discard(s, 7, &err);
    if (rc == 0)
        rc = stage_random(s, &m, 60, 8, &err);
    if (rc == 0)
        rc = store_round_write(s, STORE_COMPLETE, &err);
    while (rc == 0 && (rc = store_merge(s, 500, &err)) == 1)
        rc = 0;
    if (rc == 0)
        rc = matches(s, STORE_VIEW_COMPLETE, &m);
    if (rc != 1)
        (void)is_wrong(rc < 0 ? err.msg : "a wrong value afterwards");
    model_fini(&m);
}

static void
look(void)
{
    struct store_opts o = {.dir = dir, .any_fs = true};
    struct store *s = NULL;
    int r = store_open(&o, &s, &err);

    if (r == 0) {
        found->harmless++;
        use(s);
        store_close(&s);
        return;
    }
    found->refused++;
    if (r != ERR_IO && r != ERR_CONFIG)
        (void)is_wrong(err.msg);
    if (strstr(err.msg, file) == NULL)
        (void)is_wrong("the message does not name the file");
}

/* --- batches in children
 * ---------------------------------------------------------- */

typedef void (*damage_f)(unsigned i, uint8_t *bytes, size_t *len);

static void
batch(unsigned from, unsigned to, damage_f damage)
{
    uint8_t *bytes = malloc(whole_len);
    unsigned i;

    for (i = from; i < to && found->wrong[0] == '\0'; i++) {
        size_t len = whole_len;

        found->at = i;
        memcpy(bytes, whole, whole_len);
        damage(i, bytes, &len);
        if (!write_file(bytes, len))
            (void)is_wrong("the test cannot write");
        look();
    }
    free(bytes);
}

static void
run(unsigned n, damage_f damage)
{
    unsigned i;

    memset(found, 0, sizeof *found);
    for (i = 0; i < n; i += BATCH) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            batch(i, i + BATCH < n ? i + BATCH : n, damage);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0 || found->wrong[0] != '\0')
            print_message("damage %u: status %d, %s\n", found->at, status,
                          found->wrong);
        assert_int_equal(status, 0);
        assert_string_equal(found->wrong, "");
    }
    print_message("%u refused, %u harmless, %u of them lost the redo\n",
                  found->refused, found->harmless, found->lost_redo);
}

/* --- kinds of damage
 * ----------------------------------------------------------------- */

static uint64_t seed;

static void
flip(uint8_t *bytes, uint64_t bit)
{
    bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
}

static void
one_bit(unsigned i, uint8_t *bytes, size_t *len)
{
    flip(bytes, hash_splitmix(seed + i) % (*len * 8));
}

/* In the head of some page, where it hurts most. */
static void
page_head(unsigned i, uint8_t *bytes, size_t *len)
{
    uint64_t x = hash_splitmix(seed + i);

    flip(bytes, (x >> 16) % (*len / 4096) * 32768 + x % (64 * 8));
}

static void
meta_bit(unsigned i, uint8_t *bytes, size_t *len)
{
    (void)len;
    flip(bytes, i / META_BITS * 32768 + i % META_BITS);
}

/* A write was lost: a page is what it was some transactions ago. */
static void
lost_write(unsigned i, uint8_t *bytes, size_t *len)
{
    size_t pages = (earlier_len < *len ? earlier_len : *len) / 4096;
    size_t at = (2 + i % (pages - 2)) * 4096;

    memcpy(bytes + at, earlier + at, 4096);
}

static void
wrong_page(unsigned i, uint8_t *bytes, size_t *len)
{
    uint64_t x = hash_splitmix(seed + i), pages = *len / 4096;

    memcpy(bytes + (x >> 8) % pages * 4096, whole + (x >> 32) % pages * 4096,
           4096);
}

static void
zeroed_block(unsigned i, uint8_t *bytes, size_t *len)
{
    uint64_t x = hash_splitmix(seed + i);

    memset(bytes + x % (*len / 512) * 512, 0, 512);
}

static void
cut(unsigned i, uint8_t *bytes, size_t *len)
{
    (void)bytes;
    *len = i % 2 == 0 ? i / 2 * 4096 % *len : hash_splitmix(seed + i) % *len;
}

static unsigned
flips(void)
{
    const char *text = getenv("STORE_FLIPS");

    return text != NULL ? (unsigned)atoi(text) : FLIPS;
}

static void
no_flipped_bit_gives_a_wrong_value_or_a_crash(void **state)
{
    (void)state;
    run(flips(), one_bit);
    assert_true(found->refused > 0 && found->harmless > 0 &&
                found->lost_redo > 0);
    run(flips(), page_head);
}

static void
no_bit_of_the_meta_pages_steps_back(void **state)
{
    (void)state;
    run(2 * META_BITS, meta_bit);
}

static void
a_stale_or_lost_page_is_found(void **state)
{
    (void)state;
    run((unsigned)(earlier_len / 4096), lost_write);
    assert_true(found->refused > 0);
    run(flips() / 2, wrong_page);
    run(flips() / 2, zeroed_block);
}

static void
a_cut_file_is_refused(void **state)
{
    (void)state;
    run(2 * (unsigned)(whole_len / 4096), cut);
    assert_true(found->refused > 0);
}

/* --- pages of older checkpoints
 * -------------------------------------------------- */

enum { AGES = 14, AGE_KEYS = 300 };

/* All keys at one age, merged; the same pages come back every few rounds. */
static void
age_store(struct store *s, uint64_t age)
{
    char value[32] = {0};
    struct store_key k = {.key = value + 8, .key_len = 4};
    unsigned i;
    int rc;

    memcpy(value, &age, sizeof age);
    must(store_round_begin(s, age, &err));
    must(store_round_operator(s, "first", 5, &k.op, &err));
    for (i = 0; i < AGE_KEYS; i++) {
        memcpy(value + 8, &i, sizeof i);
        must(store_round_put(s, &k, value, sizeof value, &err));
    }
    must(store_round_write(s, STORE_COMPLETE, &err));
    while ((rc = store_merge(s, 1000, &err)) == 1)
        continue;
    must(rc);
}

/* @return whether the store opens; then every value must be of the last age. */
static bool
opens_at_last_age(void)
{
    struct store_opts o = {.dir = dir, .any_fs = true};
    struct store_reader *r = NULL;
    struct store_scan *c = NULL;
    struct store *s = NULL;
    struct store_key k;
    const void *v;
    size_t len, n = 0;
    uint64_t age;
    uint32_t op = 0;

    if (store_open(&o, &s, &err) != 0)
        return false;
    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    assert_true(store_reader_find(r, "first", 5, &op));
    must(store_scan_open(r, op, 0, UINT16_MAX, &c, &err));
    while (store_scan_next(c, &k, &v, &len, &err) == 1) {
        memcpy(&age, v, sizeof age);
        assert_int_equal(age, AGES);
        n++;
    }
    assert_int_equal(n, AGE_KEYS);
    store_scan_close(&c);
    store_reader_free(&r);
    store_close(&s);
    return true;
}

static void
a_whole_page_of_an_older_checkpoint_is_found(void **state)
{
    char *before = dir, before_file[300];
    uint8_t *old[AGES], *now, *bytes;
    size_t old_len[AGES], len, at, stale = 0;
    struct store *s;
    unsigned age;

    (void)state;
    memcpy(before_file, file, sizeof file);
    dir = temp_dir();
    (void)snprintf(file, sizeof file, "%s/data.mdb", dir);
    s = open_store(dir);
    for (age = 1; age <= AGES; age++) {
        age_store(s, age);
        old[age - 1] = read_file(&old_len[age - 1]);
    }
    store_close(&s);
    now = read_file(&len);
    bytes = malloc(len);
    for (age = 0; age < AGES - 1; age++) {
        for (at = 8192; at + 4096 <= len && at + 4096 <= old_len[age];
             at += 4096) {
            memcpy(bytes, now, len);
            memcpy(bytes + at, old[age] + at, 4096);
            assert_true(write_file(bytes, len));
            if (!opens_at_last_age())
                stale += strstr(err.msg, "missing or stale") != NULL;
        }
    }
    print_message("%zu pages whose only fault was their age\n", stale);
    assert_true(stale > 0);
    for (age = 0; age < AGES; age++)
        free(old[age]);
    free(now);
    free(bytes);
    remove_dir(dir);
    free(dir);
    dir = before;
    memcpy(file, before_file, sizeof file);
}

static void
damage_is_named(void **state)
{
    struct store_verified v;
    size_t at;

    (void)state;
    assert_true(write_file(whole, whole_len));
    must(store_verify(dir, &v, &err));
    assert_int_equal(v.round, 6);
    /* Flip bits of values until one of the base or a segment is named. */
    for (at = 8192 + 100; at < whole_len; at += 512) {
        uint8_t *bytes = malloc(whole_len);
        int r;

        memcpy(bytes, whole, whole_len);
        bytes[at] ^= 4;
        assert_true(write_file(bytes, whole_len));
        free(bytes);
        r = store_verify(dir, &v, &err);
        if (r != 0 && strstr(err.msg, "operator 'first', key group") != NULL)
            break;
    }
    assert_true(at < whole_len);
    print_message("%s\n", err.msg);
    assert_non_null(strstr(err.msg, file));
    assert_non_null(strstr(err.msg, "checkpoint 6"));
}

static void
another_format_is_said(void **state)
{
    uint8_t *bytes = malloc(whole_len);
    struct store_verified v;

    (void)state;
    memcpy(bytes, whole, whole_len);
    bytes[16] = whole[19];
    bytes[17] = whole[18];
    bytes[18] = whole[17];
    bytes[19] = whole[16];
    assert_true(write_file(bytes, whole_len));
    free(bytes);
    assert_int_equal(store_verify(dir, &v, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "byte order"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flipped_bit_gives_a_wrong_value_or_a_crash),
        cmocka_unit_test(no_bit_of_the_meta_pages_steps_back),
        cmocka_unit_test(a_stale_or_lost_page_is_found),
        cmocka_unit_test(a_whole_page_of_an_older_checkpoint_is_found),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(another_format_is_said),
    };
    int r;

    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        return 1;
    make_file();
    random_seed("damage", (uint64_t)getpid());
    seed = test_random;
    r = cmocka_run_group_tests_name("store_damage", tests, NULL, NULL);
    model_fini(&complete);
    model_fini(&pending);
    free(whole);
    free(earlier);
    remove_dir(dir);
    free(dir);
    return r;
}
